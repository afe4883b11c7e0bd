//===- ViewKernels.h - attention and append on a device -------------------===//

#ifndef KVC_RUNTIME_DEVICE_VIEWKERNELS_H
#define KVC_RUNTIME_DEVICE_VIEWKERNELS_H

#include "runtime/device/Device.h"

#include <cstring>

namespace kvc::rt {

/// The kernels of runtime/kernels for one element type and width of head dimensions,
/// loaded once for each device of the process.
class ViewKernels {
public:
  enum Kernel : uint32_t {
    AddParts,
    Append,
    AppendCounts,
    Attend // one for each gpu::Sharing
  };

  ViewKernels(std::unique_ptr<Device> device, bool together)
      : device(std::move(device)), together(together) {}

  /// Throws Failure where the library was built without them, the target was not
  /// enabled, or there is no such device.
  static const ViewKernels &on(kvc_target_kind target, int device,
                               kvc_dtype dtype, uint32_t headDim);

  /// `sharedBytes`, `front`: Launch. Returns what a launch behind it names as `front`.
  template <typename Args>
  Launch launch(uint32_t kernel, std::array<uint32_t, 3> grid, uint32_t block,
                const Args &args, void *stream, uint32_t sharedBytes = 0,
                const Launch *front = nullptr) const {
    static_assert(sizeof(Args) % sizeof(uint64_t) == 0);
    std::array<uint64_t, sizeof(Args) / sizeof(uint64_t)> slots;
    std::memcpy(slots.data(), &args, sizeof args);
    Launch launch{.kernel = kernel,
                  .grid = grid,
                  .block = block,
                  .args = slots,
                  .front = front,
                  .sharedBytes = sharedBytes};
    device->launch(launch, stream);
    return launch.asFront();
  }

  /// True where there are kernels for four warps that multiply together.
  bool multiplyTogether() const { return together; }
  /// For whoever watches what it launches.
  Device &loadedDevice() const { return *device; }

private:
  std::unique_ptr<Device> device;
  const bool together;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_DEVICE_VIEWKERNELS_H
