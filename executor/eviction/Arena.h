//===- Arena.h - device memory for as long as it is needed ----------------===//

#ifndef KVC_EXECUTOR_EVICTION_ARENA_H
#define KVC_EXECUTOR_EVICTION_ARENA_H

#include "runtime/device/Device.h"

#include <cstddef>
#include <vector>

namespace kvc::rt {

/// Memory of a device, all of it released with the object.
class Arena {
public:
  explicit Arena(Device &device) : device(device) {}
  ~Arena() {
    for (void *memory : owned)
      device.release(memory);
  }
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// `count` elements as the device gives them.
  template <typename T> T *fresh(size_t count) {
    void *memory = device.allocate(count * sizeof(T));
    owned.push_back(memory);
    return static_cast<T *>(memory);
  }
  /// `count` elements, all 0.
  template <typename T> T *zeros(size_t count) {
    T *memory = fresh<T>(count);
    device.clear(memory, count * sizeof(T));
    return memory;
  }
  template <typename T> T *upload(const std::vector<T> &values) {
    T *memory = zeros<T>(values.size());
    device.upload(memory, values.data(), values.size() * sizeof(T));
    return memory;
  }
  template <typename T>
  std::vector<T> download(const T *memory, size_t count) const {
    std::vector<T> values(count);
    device.download(values.data(), memory, count * sizeof(T));
    return values;
  }

  Device &device;

private:
  std::vector<void *> owned;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_ARENA_H
