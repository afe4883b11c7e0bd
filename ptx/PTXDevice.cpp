//===- PTXDevice.cpp - an artefact's PTX, executed by the machine ---------===//

#include "kvc/ptx.h"
#include "ptx/Machine.h"
#include "ptx/Parser.h"
#include "runtime/base/Failure.h"
#include "runtime/device/Targets.h"

#include <cstring>

using namespace kvc;
using rt::Device;
using rt::fail;

namespace {

class PTXDevice : public Device {
public:
  PTXDevice(const kvc_artifact &artifact, std::span<const std::string> names,
            const kvc_target &target)
      : threads(target.threads), seed(target.seed) {
    if (!artifact.image_count)
      throw fail(KVC_BAD_ARTIFACT, "artifact has no PTX: compile it with "
                                   "--chip=sm_90, say");
    const kvc_image &image = artifact.images[artifact.image_count - 1];
    program = ptx::parse({image.ptx, image.size});
    for (const std::string &name : names) {
      auto found = program.kernels.find(name);
      if (found == program.kernels.end())
        throw fail(KVC_BAD_ARTIFACT, "the PTX for {} has no kernel '{}'",
                   image.chip, name);
      kernels.push_back(&found->second);
    }
  }

  void launch(const rt::Launch &launch, void *) override {
    const ptx::Kernel &kernel = *kernels[launch.kernel];
    if (launch.args.size() != kernel.parameters.size())
      throw fail(KVC_BAD_ARTIFACT, "kernel '{}' has {} parameters, got {}",
                 kernel.name, kernel.parameters.size(), launch.args.size());
    std::vector<std::byte> bytes(kernel.parameterBytes);
    for (size_t i = 0; i < launch.args.size(); ++i) {
      auto [offset, size] = kernel.parameters[i];
      std::memcpy(&bytes[offset], &launch.args[i], std::min(size, 8u));
    }
    ptx::run(kernel, {launch.grid, launch.block}, bytes, memory.view(), threads,
             seed);
  }
  void *allocate(size_t bytes) override { return memory.allocate(bytes); }
  void release(void *address) override { memory.release(address); }
  void upload(void *to, const void *from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(void *to, const void *from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void clear(void *to, size_t bytes) override { std::memset(to, 0, bytes); }
  void synchronize() override {}
  /// So that whoever brings layers of the host copies them to memory that is
  /// checked.
  bool onHost() const override { return false; }

private:
  ptx::Program program;
  std::vector<const ptx::Kernel *> kernels;
  ptx::GlobalMemory memory;
  unsigned threads;
  uint64_t seed;
};

} // namespace

void kvc_enable_ptx(void) {
  rt::enableTarget(
      KVC_PTX,
      [](const kvc_artifact &artifact, std::span<const std::string> names,
         const kvc_target &target) -> std::unique_ptr<Device> {
        return std::make_unique<PTXDevice>(artifact, names, target);
      });
}
