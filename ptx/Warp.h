//===- Warp.h - 32 lanes in step ------------------------------------------===//
//
// Lanes that take different ways run one after the other, and meet again where
// all ways must pass (Reconvergence.h): the SIMT stack of the literature. What a
// warp does together (shuffles, votes, matrix products, barriers) is an error
// where some of its lanes are elsewhere: on a GPU they would wait for ever, or
// not.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_WARP_H
#define KVC_PTX_WARP_H

#include "ptx/AsyncCopies.h"
#include "ptx/KeptVector.h"
#include "ptx/Program.h"
#include "ptx/SharedMemory.h"
#include "ptx/WarpgroupProducts.h"

#include <span>

namespace kvc::ptx {

class Block;

class Warp {
public:
  /// `index` within its block; lanes past the block's end never run.
  Warp(Block &block, const Kernel &kernel, uint32_t index, uint32_t lanes);

  enum class State { Ready, Polls, AtBarrier, AtClusterBarrier, Done };
  /// Runs until a barrier or the end, until it waits in vain, or for `most` instructions.
  State run(uint64_t most = UINT64_MAX);

  Lanes &row(Row row) { return rows[row]; }
  const Lanes &operator[](const Operand &operand) const {
    return rows[operand.row];
  }

  Block &block;
  const uint32_t index;
  uint32_t carry = 0; // of add.cc and sub.cc, a bit a lane
  uint32_t syncs = 0; // bar.warp.sync so far: orders memory among lanes
  /// For which team it waits at its barrier, and of how many threads; 0: for the block.
  struct Team {
    uint32_t number = 0, threads = 0;
    bool operator==(const Team &) const = default;
  } team;
  uint32_t teamBarriers = 0; // since the block's last one
  bool arrived = false; // at the cluster's barrier, and has not waited for it
  uint32_t waited; // lanes that have waited for earlier launches, a bit each
  std::array<AsyncCopies, 32> copies; // a lane's
  WarpgroupProducts products;
  bool polls = false; // it has found that what it waits for is not there yet

private:
  struct Way {
    uint32_t at, lanes, join;
  };
  void branch(const Instruction &instruction, uint32_t lanes);

  const Kernel &kernel;
  KeptVector<Lanes> rows;
  std::vector<Way> ways; // the last one runs
  uint32_t alive;
};

/// Where a memory operand points to.
inline uint64_t addressOf(const Warp &warp, const Operand &operand,
                          uint32_t lane) {
  return warp[operand][lane] + uint64_t(operand.offset);
}
/// Global memory for a lane. Throws Failure where nothing is (GlobalView), and where a
/// kernel that waits for earlier launches has not done so yet: it may find what these
/// have not written, or write what they still read.
std::byte *globalAt(Warp &warp, uint64_t address, uint32_t bytes,
                    uint32_t lane);
/// A lane's access to shared memory, now.
Access accessOf(const Warp &warp, uint32_t lane);

} // namespace kvc::ptx

#endif // KVC_PTX_WARP_H
