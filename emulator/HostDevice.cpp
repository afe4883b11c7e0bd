//===- HostDevice.cpp - kernels on the CPU --------------------------------===//

#include "emulator/Emulator.h"
#include "emulator/Warps.h"
#include "kvc/host.h"
#include "runtime/base/Failure.h"
#include "runtime/base/LargePages.h"
#include "runtime/device/Targets.h"

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

using namespace kvc::rt;

namespace {

class HostDevice : public Device {
public:
  HostDevice(const kvc_artifact &artifact, std::span<const std::string> names,
             const kvc_target &target)
      : threads(target.threads), seed(target.seed) {
    std::unordered_map<std::string_view, const kvc_host_entry *> entries;
    for (uint64_t i = 0; i < artifact.kernel_count; ++i) {
      const kvc_host_entry &entry = artifact.kernels[i];
      const kvc_host_entry *&chosen = entries[entry.name];
      if (!chosen || hasProcessor(entry.warp_processor))
        chosen = &entry;
    }
    for (const std::string &name : names) {
      auto entry = entries.find(name);
      if (entry == entries.end())
        throw fail(KVC_BAD_ARTIFACT, "artifact has no host kernel '{}'", name);
      kernels.push_back(entry->second);
    }
  }

  void launch(const Launch &launch, void *) override {
    const kvc_host_entry &entry = *kernels[launch.kernel];
    // Orders of threads are for their emulation.
    if (!seed && entry.warp && hasProcessor(entry.warp_processor))
      return runWarps({entry.name, entry.warp, launch.grid, launch.block,
                       entry.shared_bytes},
                      launch.args.data(), threads);
    emulate({entry.name, entry.entry, launch.grid, launch.block,
             entry.shared_bytes},
            launch.args.data(), threads, seed);
  }
  void *allocate(size_t bytes) override {
    void *memory = allocateLarge(bytes);
    if (!memory)
      throw fail(KVC_INTERNAL_ERROR, "cannot allocate {} bytes", bytes);
    return memory;
  }
  void release(void *memory) override { std::free(memory); }
  void upload(void *to, const void *from, size_t bytes) override {
    if (bytes)
      std::memcpy(to, from, bytes);
  }
  void download(void *to, const void *from, size_t bytes) override {
    upload(to, from, bytes);
  }
  void clear(void *memory, size_t bytes) override {
    if (bytes)
      std::memset(memory, 0, bytes);
  }
  void synchronize() override {}
  bool onHost() const override { return true; }
  bool multipliesByWarpgroups(uint32_t) const override { return false; }

private:
  std::vector<const kvc_host_entry *> kernels;
  unsigned threads;
  uint64_t seed;
};

} // namespace

void kvc_enable_host(void) {
  enableTarget(KVC_HOST,
               [](const kvc_artifact &artifact,
                  std::span<const std::string> names,
                  const kvc_target &target) -> std::unique_ptr<Device> {
                 return std::make_unique<HostDevice>(artifact, names, target);
               });
}
