//===- SharedMemory.h - a block's memory, and who races for it ------------===//
//
// Bytes begin as NaN. What wgmma reads must have gone to the asynchronous proxy: its
// writer passes fence.proxy.async, then the barrier. Two threads race where both touch a word between two
// barriers, at least one writes, and no barrier of their team stands between them where
// they are of one, nor a bar.warp.sync where they are of one warp. Writing what is there
// already, and atomics among themselves, are no race. What another block of the cluster
// writes races with all that the block does to the word between the same two barriers of the
// cluster.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_SHAREDMEMORY_H
#define KVC_PTX_SHAREDMEMORY_H

#include "ptx/KeptVector.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvc::ptx {

/// Who touches memory, and when: barriers counted, those of the thread's team since then,
/// and bar.warp.syncs.
struct Access {
  uint32_t thread, barriers, teamBarriers, syncs;
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
  /// What the bulk copy engine brings, asked for by a thread: until its arrival, nobody may
  /// touch it, and then those only who have seen that, and who have met one that has.
  void bring(uint64_t address, uint32_t bytes, const void *value, Access asker,
             uint32_t arrival);
  /// Of copies that arrive together; none is 0.
  uint32_t newArrival();
  void saw(uint32_t arrival, Access access);
  /// A barrier in memory that threads meet at. Throws Failure where whoever wrote it races.
  void sync(uint64_t address, uint32_t bytes, Access access);
  /// Throws Failure where the asynchronous proxy does not see what was written.
  void checkFenced(uint64_t address, uint32_t bytes, Access access) const;
  /// A read of the asynchronous proxy.
  const std::byte *readAsync(uint64_t address, uint32_t bytes, Access access);
  /// fence.proxy.async of a thread: from the next barrier on, that proxy sees what the
  /// thread has written.
  void fence(Access access);

  /// A store of another block of the cluster; behind the first barrier of that, since until
  /// then this block may not have begun.
  void writeFromOutside(uint64_t address, uint32_t bytes, const void *value);
  /// All threads of the block have met; or the blocks of its cluster, which orders these as
  /// well.
  void passBarrier();
  void passClusterBarrier();

  uint32_t barriers = 0; // passed so far
  /// Threads of a team, since one passed its barrier behind the block's last one.
  uint32_t team = 0;

private:
  /// Those who did the same to a word since the last barrier: the last of them,
  /// and whether there were others, in its warp since its bar.warp.sync, in other warps of
  /// its team since that one's barrier, or in other teams. Which team a warp is in is known
  /// when the first one meets: others in front of that may be of any.
  class Party {
  public:
    void add(const Access &access, uint32_t team);
    /// True where somebody else of them is not ordered before an access.
    bool races(const Access &access, uint32_t team) const;
    uint32_t thread() const { return last.thread; }
    /// True where somebody of them came behind so many barriers.
    bool since(uint32_t barriers) const {
      return last.thread != nobody && last.barriers >= barriers;
    }

  private:
    bool inInterval(const Access &access) const {
      return last.thread != nobody && last.barriers == access.barriers;
    }
    static constexpr uint32_t nobody = ~0u;
    Access last{nobody, 0, 0, 0};
    bool otherLanes = false, otherWarps = false, otherTeams = false;
  };
  struct Word {
    Party readers, writers, changers; // by atomics
    uint32_t writer = 0;              // the last one
    uint32_t fences = never;          // that it had passed before
    uint32_t arrival = 0;             // of what the engine brings
    uint32_t outside = 0;             // interval in which another block wrote
  };
  static constexpr uint32_t never = ~0u;
  void wrote(Word &word, const Access &access);
  /// Throws Failure where another block of the cluster may still write there.
  void checkOutside(uint64_t word, Access access) const {
    if (words[word].outside == intervals)
      throwOutside(word, access);
  }
  [[noreturn]] static void throwOutside(uint64_t word, Access access);
  /// Throws Failure where the engine still writes there, for all a thread knows.
  void checkArrived(uint64_t word, Access access) const {
    if (words[word].arrival)
      checkSeen(word, access);
  }
  void checkSeen(uint64_t word, Access access) const;

  void check(uint64_t address, uint32_t bytes) const;
  KeptVector<std::byte> bytes;
  KeptVector<Word> words;
  /// Intervals between barriers of the cluster, the running one counted, and how many of the
  /// block's had been passed when it began.
  uint32_t intervals = 1, barriersBefore = 0;
  /// Which warps have seen an arrival, a bit each, and in front of which barrier the first did.
  struct Seen {
    uint32_t warps = 0, barriers = never;
  };
  std::vector<Seen> arrivals; // the first one is nobody's
  std::vector<std::vector<uint32_t>>
      fences; // by thread: barriers in front of each
};

} // namespace kvc::ptx

#endif // KVC_PTX_SHAREDMEMORY_H
