//===- GlobalMemory.h - what a PTX device has allocated -------------------===//
//
// Device memory is the process's own. What was allocated here has room around it
// that belongs to nobody: an access there is an error instead of a wrong number.
// Memory that a caller of the C ABI brought is not known and not checked.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_GLOBALMEMORY_H
#define KVC_PTX_GLOBALMEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace kvc::ptx {

/// The allocations at the time of a launch.
class GlobalView {
public:
  explicit GlobalView(std::map<uint64_t, uint64_t> allocations)
      : allocations(std::move(allocations)) {}

  /// Throws Failure where the bytes are around an allocation, not in it, or
  /// where the address is no multiple of their number.
  std::byte *at(uint64_t address, uint32_t bytes) const;

  /// First byte and size of the allocation that an address is in; 0 and 0 of
  /// memory that is not known.
  std::pair<uint64_t, uint64_t> allocation(uint64_t address) const;

private:
  std::map<uint64_t, uint64_t> allocations; // first byte, bytes
};

class GlobalMemory {
public:
  ~GlobalMemory();
  /// Begins as NaN.
  void *allocate(size_t bytes);
  void release(void *memory);
  GlobalView view() const;

private:
  mutable std::mutex mutex;
  std::map<uint64_t, uint64_t> allocations;
};

} // namespace kvc::ptx

#endif // KVC_PTX_GLOBALMEMORY_H
