//===- HostDevice.cpp - kernels on the CPU --------------------------------===//

#include "runtime/base/Failure.h"
#include "runtime/device/Device.h"
#include "emulator/Emulator.h"

#include <cstdlib>
#include <cstring>
#include <map>

using namespace kvc::rt;

namespace {

class HostDevice : public Device {
public:
  HostDevice(const kvc_artifact &artifact, const Manifest &manifest,
             unsigned threads, uint64_t seed)
      : threads(threads), seed(seed) {
    for (uint64_t i = 0; i < artifact.kernel_count; ++i)
      kernels[artifact.kernels[i].name] = &artifact.kernels[i];
    for (const Variant &variant : manifest.variants)
      for (const KernelSpec &kernel : variant.kernels)
        if (!kernels.count(kernel.name))
          throw fail(KVC_BAD_ARTIFACT, "artifact has no host kernel '{}'",
                     kernel.name);
  }

  void launch(const Launch &launch, void *) override {
    const kvc_host_entry &entry = *kernels.at(launch.kernel);
    emulate({launch.kernel, entry.entry, launch.grid, launch.block,
             entry.shared_bytes},
            launch.args.data(), threads, seed);
  }
  void *allocate(size_t bytes) override {
    // Aligned as device memory is.
    void *memory = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
    if (!memory)
      throw fail(KVC_INTERNAL_ERROR, "cannot allocate {} bytes", bytes);
    return memory;
  }
  void release(void *memory) override { std::free(memory); }
  void upload(void *to, const void *from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(void *to, const void *from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void clear(void *memory, size_t bytes) override {
    std::memset(memory, 0, bytes);
  }
  void synchronize() override {}
  bool onHost() const override { return true; }

private:
  std::map<std::string, const kvc_host_entry *, std::less<>> kernels;
  unsigned threads;
  uint64_t seed;
};

} // namespace

std::unique_ptr<Device> kvc::rt::makeHostDevice(const kvc_artifact &artifact,
                                                const Manifest &manifest,
                                                unsigned threads,
                                                uint64_t seed) {
  return std::make_unique<HostDevice>(artifact, manifest, threads, seed);
}
