//===- Device.h - where kernels run ---------------------------------------===//

#ifndef KVC_RUNTIME_DEVICE_DEVICE_H
#define KVC_RUNTIME_DEVICE_DEVICE_H

#include "kvc/kvc.h"

#include <array>
#include <memory>
#include <span>
#include <string>

namespace kvc::gpu {
struct TensorMap; // runtime/kernels/TensorMap.h
}

namespace kvc::rt {

struct BoxedTensor; // BoxedTensor.h

/// Shared memory of a block, on every chip so far.
inline constexpr uint32_t mostSharedBytes = 227 << 10;

struct Launch {
  uint32_t kernel; // index among the names that the device was made with
  std::array<uint32_t, 3> grid;
  uint32_t block;
  /// One 64-bit slot each, or the one struct that a kernel takes by value.
  std::span<const uint64_t> args;
  /// Where what is in front of it in the stream is another launch of the same call, that
  /// one (its arguments are not read): it may begin while that still runs, if the kernel
  /// itself waits (programmatic dependent launch).
  const Launch *front = nullptr;
  /// Bytes of memory for each block, beside what the kernel has of its own.
  uint32_t sharedBytes = 0;

  /// What a launch behind it needs to know of it.
  Launch asFront() const {
    return {kernel, grid, block, {}, nullptr, sharedBytes};
  }
};

/// A target with one artefact's kernels loaded. Memory functions serve the
/// commands and the executor; the ABI never allocates through them. Of 0 bytes the
/// places may be null: a policy may keep nothing.
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
  /// Makes what the bulk copy engine reads of a tensor; false where there is none, or it does
  /// not take such a tensor.
  virtual bool mapTensor(const BoxedTensor &, gpu::TensorMap &) {
    return false;
  }
  /// True where what runs as a kernel is from PTX that has the forms of kernels for
  /// warpgroups.
  virtual bool multipliesByWarpgroups(uint32_t kernel) const = 0;
};

/// Makes a device with the kernels of `names` out of an artefact. Throws Failure
/// where one is missing.
using DeviceFactory = std::unique_ptr<Device> (*)(
    const kvc_artifact &artifact, std::span<const std::string> names,
    const kvc_target &target);

/// Opens the driver, takes the device's primary context and loads each kernel from the PTX
/// that fits best of those that have it.
std::unique_ptr<Device> makeCudaDevice(const kvc_artifact &artifact,
                                       std::span<const std::string> names,
                                       const kvc_target &target);
/// True if PTX for `chip` runs on a device. Throws Failure where there is none.
bool cudaDeviceRuns(int ordinal, const char *chip);
/// 0 when there is no driver.
int cudaDeviceCount();

} // namespace kvc::rt

#endif // KVC_RUNTIME_DEVICE_DEVICE_H
