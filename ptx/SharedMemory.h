//===- SharedMemory.h - a block's memory, and who races for it ------------===//
//
// Bytes begin as NaN. Two threads race where both touch a word between two
// barriers, at least one writes, and no bar.warp.sync stands between them where
// they are of one warp. Writing what is there already, and atomics among
// themselves, are no race.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_SHAREDMEMORY_H
#define KVC_PTX_SHAREDMEMORY_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvc::ptx {

/// Who touches memory, and when: barriers and bar.warp.syncs counted.
struct Access {
  uint32_t thread, barriers, syncs;
};

class SharedMemory {
public:
  explicit SharedMemory(uint32_t bytes);

  /// The bytes at an address. Each throws Failure outside of the memory, where
  /// an address is no multiple of `bytes`, and where threads race.
  const std::byte *read(uint64_t address, uint32_t bytes, Access access);
  void write(uint64_t address, uint32_t bytes, const void *value,
             Access access);
  /// For the caller to change in place.
  std::byte *change(uint64_t address, uint32_t bytes, Access access);

  uint32_t barriers = 0; // passed so far

private:
  /// Those who did the same to a word since the last barrier: the last of them,
  /// and whether there were others, in its warp since its bar.warp.sync or in
  /// other warps.
  class Party {
  public:
    void add(const Access &access);
    /// True where somebody else of them is not ordered before an access.
    bool races(const Access &access) const;
    uint32_t thread() const { return last.thread; }

  private:
    static constexpr uint32_t nobody = ~0u;
    Access last{nobody, 0, 0};
    bool otherLanes = false, otherWarps = false;
  };
  struct Word {
    Party readers, writers, changers; // by atomics
  };

  void check(uint64_t address, uint32_t bytes) const;
  std::vector<std::byte> bytes;
  std::vector<Word> words;
};

} // namespace kvc::ptx

#endif // KVC_PTX_SHAREDMEMORY_H
