//===- PTXDevice.h - an artefact's PTX, executed by the machine -----------===//

#ifndef KVC_PTX_PTXDEVICE_H
#define KVC_PTX_PTXDEVICE_H

#include "ptx/GlobalMemory.h"
#include "ptx/Program.h"
#include "runtime/base/Failure.h"
#include "runtime/device/Device.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>

namespace kvc::ptx {

class Profiler;
struct Card;

class PTXDevice : public rt::Device {
public:
  /// Runs each kernel from the artefact's last image that has it. Throws Failure where
  /// there is none, or where the machine does not know what is in it.
  PTXDevice(const kvc_artifact &artifact, std::span<const std::string> names,
            const kvc_target &target);

  /// From now on the profiler runs every launch; null: the machine again.
  void watch(Profiler *watching) { profiler = watching; }
  /// From now on kernels are those that a card would run. PTX for a later chip is no
  /// hindrance, but for one alone. A launch of what has no other throws Failure.
  void runAs(const Card &card);
  struct Image {
    std::string chip;
    std::string_view text;
    std::optional<Program> program; // once somebody has asked for a kernel
  };
  /// In the artefact's order.
  const std::deque<Image> &images() const { return loaded; }

  void launch(const rt::Launch &launch, void *stream) override;
  void *allocate(size_t bytes) override { return memory.allocate(bytes); }
  void release(void *address) override { memory.release(address); }
  void upload(void *to, const void *from, size_t bytes) override;
  void download(void *to, const void *from, size_t bytes) override;
  void clear(void *to, size_t bytes) override;
  void synchronize() override {}
  bool mapTensor(const rt::BoxedTensor &tensor, gpu::TensorMap &map) override;
  /// So that whoever brings layers of the host copies them to memory that is
  /// checked.
  bool onHost() const override { return false; }
  bool multipliesByWarpgroups(uint32_t kernel) const override {
    return kernels[kernel].hasWarpgroups;
  }

private:
  struct Found {
    const Kernel *kernel; // null: no image has it
    bool hasWarpgroups;
  };
  /// Of the last image that it `may` be of.
  Found find(const std::string &name,
             const std::function<bool(const Image &)> &may);

  std::deque<Image> loaded;
  std::vector<Found> kernels;
  std::map<const Kernel *, rt::Failure> refused;
  GlobalMemory memory;
  Profiler *profiler = nullptr;
  unsigned threads;
  uint64_t seed;
};

/// A profiler that runs the launches of a device from now on, with registers from
/// ptxas where there is one; Profiler.h says what `blocks` are. It must live as
/// long as the device launches. Throws Failure where the device is no PTXDevice,
/// and where the card is unknown.
std::unique_ptr<Profiler>
watchLaunches(rt::Device &device, const std::string &card, uint32_t blocks);

} // namespace kvc::ptx

#endif // KVC_PTX_PTXDEVICE_H
