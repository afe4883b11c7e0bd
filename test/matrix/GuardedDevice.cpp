//===- GuardedDevice.cpp - host kernels between pages without access ------===//

#include "test/matrix/GuardedDevice.h"

#include "kvc/host.h"
#include "runtime/device/Targets.h"
#include "runtime/plan/Manifest.h"

#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace kvc;
using namespace kvc::test;

namespace {

constexpr const char *argumentNames[] = {
#define KVC_ARGUMENT(name, kind, access, value, meaning) #name,
#include "kvc/arguments.def"
#undef KVC_ARGUMENT
};

std::string nameOf(const rt::Slot &slot) {
  return slot.scratch ? "scratch." + std::to_string(slot.index)
                      : argumentNames[slot.index];
}

/// What the line is made of; one launch runs at a time.
struct Running {
  std::string kernel;
  std::vector<std::pair<std::string, const GuardedMemory *>> arguments;
};
std::optional<Running> running;

void report(int, siginfo_t *info, void *) {
  char line[256];
  int length =
      std::snprintf(line, sizeof line, "an access to %p\n", info->si_addr);
  if (running)
    for (auto &[name, memory] : running->arguments)
      if (memory->holds(info->si_addr)) {
        auto at = static_cast<std::byte *>(info->si_addr) - memory->data;
        length = std::snprintf(
            line, sizeof line, "kernel %s: byte %td of the %zu of %s\n",
            running->kernel.c_str(), at, memory->bytes, name.c_str());
        break;
      }
  if (write(STDERR_FILENO, line, size_t(length)) != length)
    _exit(1);
  _exit(outsideStatus);
}

class GuardedDevice : public rt::Device {
public:
  GuardedDevice(const kvc_artifact &artifact,
                std::span<const std::string> names, const kvc_target &given)
      : manifest(rt::Manifest::parse(
            std::string(artifact.manifest, artifact.manifest_size))) {
    kvc_target target = given;
    target.kind = KVC_HOST;
    host = rt::openDevice(artifact, names, target);
    for (const rt::Variant &variant : manifest.variants)
      for (const rt::KernelSpec &kernel : variant.kernels)
        kernels.push_back(&kernel);
  }

  void launch(const rt::Launch &launch, void *stream) override {
    const rt::KernelSpec &kernel = *kernels[launch.kernel];
    std::vector<uint64_t> args(launch.args.begin(), launch.args.end());
    std::map<uint32_t, GuardedMemory> scratch;
    Running now = {kernel.name, {}};
    for (size_t i = 0; i < args.size(); ++i) {
      const rt::Slot &slot = kernel.slots[i];
      if (slot.scratch) {
        auto *data = reinterpret_cast<const std::byte *>(args[i]);
        auto [own, isNew] = scratch.try_emplace(
            slot.index, std::span(data, bytesOf(slot.index)), guarding.edge);
        args[i] = reinterpret_cast<uint64_t>(own->second.data);
        now.arguments.emplace_back(nameOf(slot), &own->second);
      } else if (const GuardedMemory *memory = holding(args[i])) {
        now.arguments.emplace_back(nameOf(slot), memory);
        if (guarding.moved == rt::Argument(slot.index))
          args[i] += uint64_t(guarding.by);
      }
    }
    running = std::move(now);
    host->launch({launch.kernel, launch.grid, launch.block, args}, stream);
    running.reset();
    for (size_t i = 0; i < args.size(); ++i)
      if (auto own = scratch.find(kernel.slots[i].index);
          kernel.slots[i].scratch && own != scratch.end()) {
        std::memcpy(reinterpret_cast<void *>(launch.args[i]), own->second.data,
                    own->second.bytes);
        scratch.erase(own);
      }
  }

  void *allocate(size_t bytes) override {
    auto memory = std::make_unique<GuardedMemory>(bytes, guarding.edge);
    // Whoever reads what nobody has written must not find zeros.
    std::memset(memory->data, 0xff, bytes);
    void *data = memory->data;
    all.push_back(std::move(memory));
    return data;
  }
  void release(void *data) override {
    std::erase_if(all, [&](auto &memory) { return memory->data == data; });
  }
  void upload(void *to, const void *from, size_t bytes) override {
    host->upload(to, from, bytes);
  }
  void download(void *to, const void *from, size_t bytes) override {
    host->download(to, from, bytes);
  }
  void clear(void *memory, size_t bytes) override {
    host->clear(memory, bytes);
  }
  void synchronize() override {}
  bool onHost() const override { return false; }
  bool multipliesByWarpgroups(uint32_t) const override { return false; }

private:
  const rt::Manifest manifest;
  std::unique_ptr<rt::Device> host;
  std::vector<const rt::KernelSpec *> kernels;
  std::vector<std::unique_ptr<GuardedMemory>> all;

  size_t bytesOf(uint32_t buffer) const {
    const rt::BufferSpec &spec = manifest.buffers[buffer];
    uint64_t bytes = spec.bytes;
    for (const rt::Extent &extent : spec.dims)
      bytes *= extent.evaluate(guarding.sizes);
    return bytes;
  }
  /// Numbers are no addresses: no memory holds them.
  const GuardedMemory *holding(uint64_t value) const {
    for (const auto &memory : all)
      if (memory->holds(reinterpret_cast<const void *>(value)))
        return memory.get();
    return nullptr;
  }
};

} // namespace

void kvc::test::enableGuardedDevice() {
  kvc_enable_host();
  rt::enableTarget(
      KVC_CUDA,
      [](const kvc_artifact &artifact, std::span<const std::string> names,
         const kvc_target &target) -> std::unique_ptr<rt::Device> {
        return std::make_unique<GuardedDevice>(artifact, names, target);
      });
  struct sigaction action = {};
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO;
  for (int signal : {SIGSEGV, SIGBUS})
    sigaction(signal, &action, nullptr);
}
