//===- PTXDevice.h - an artefact's PTX, executed by the machine -----------===//

#ifndef KVC_PTX_PTXDEVICE_H
#define KVC_PTX_PTXDEVICE_H

#include "ptx/GlobalMemory.h"
#include "ptx/Program.h"
#include "runtime/device/Device.h"

#include <deque>

namespace kvc::ptx {

class Profiler;

class PTXDevice : public rt::Device {
public:
  /// Runs each kernel from the artefact's last image that has it. Throws Failure where
  /// there is none, or where the machine does not know what is in it.
  PTXDevice(const kvc_artifact &artifact, std::span<const std::string> names,
            const kvc_target &target);

  /// From now on the profiler runs every launch; null: the machine again.
  void watch(Profiler *watching) { profiler = watching; }
  /// PTX that was read.
  struct Image {
    std::string chip;
    std::string_view text;
    Program program;
  };
  const std::deque<Image> &images() const { return loaded; }

  void launch(const rt::Launch &launch, void *stream) override;
  void *allocate(size_t bytes) override { return memory.allocate(bytes); }
  void release(void *address) override { memory.release(address); }
  void upload(void *to, const void *from, size_t bytes) override;
  void download(void *to, const void *from, size_t bytes) override;
  void clear(void *to, size_t bytes) override;
  void synchronize() override {}
  /// So that whoever brings layers of the host copies them to memory that is
  /// checked.
  bool onHost() const override { return false; }

private:
  const Kernel &find(const kvc_artifact &artifact, const std::string &name);

  std::deque<Image> loaded;
  std::vector<const Kernel *> kernels;
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
