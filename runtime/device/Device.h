//===- Device.h - where kernels run ---------------------------------------===//

#ifndef KVC_RUNTIME_DEVICE_DEVICE_H
#define KVC_RUNTIME_DEVICE_DEVICE_H

#include "kvc/kvc.h"
#include "runtime/plan/Manifest.h"

#include <memory>
#include <span>

namespace kvc::rt {

struct Launch {
  const std::string &kernel;
  std::array<uint32_t, 3> grid;
  uint32_t block;
  std::span<const uint64_t> args; // one 64-bit slot each
};

/// A target with one artefact's kernels loaded. Memory functions serve the
/// commands and the executor; the ABI never allocates through them.
class Device {
public:
  virtual ~Device() = default;
  /// Enqueues; on the host runs.
  virtual void launch(const Launch &launch, void *stream) = 0;
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;
  virtual void upload(void *to, const void *from, size_t bytes) = 0;
  virtual void download(void *to, const void *from, size_t bytes) = 0;
  virtual void clear(void *memory, size_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual bool onHost() const = 0;
};

std::unique_ptr<Device> makeHostDevice(const kvc_artifact &artifact,
                                       const Manifest &manifest,
                                       unsigned threads, uint64_t seed);
/// Opens the driver, takes the device's primary context, loads the PTX that
/// fits best and checks that every kernel is in it.
std::unique_ptr<Device> makeCudaDevice(const kvc_artifact &artifact,
                                       const Manifest &manifest, int ordinal);
/// 0 when there is no driver.
int cudaDeviceCount();

} // namespace kvc::rt

#endif // KVC_RUNTIME_DEVICE_DEVICE_H
