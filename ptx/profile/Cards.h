//===- Cards.h - what a GPU can do in a second ----------------------------===//

#ifndef KVC_PTX_PROFILE_CARDS_H
#define KVC_PTX_PROFILE_CARDS_H

#include <cstdint>
#include <span>
#include <string>

namespace kvc::ptx {

/// Rates are those that good kernels reach, not those of data sheets.
struct Card {
  const char *name;
  const char *chip;         // "sm_90"
  uint32_t multiprocessors; // SMs
  double clock;             // Hz
  double dramBytes;         // per second, read and written
  double l2Bytes;           // per second, between L2 and the SMs
  uint64_t l2Capacity;      // bytes
  uint32_t l1Capacity;      // bytes of an SM, shared memory included
  uint32_t mostShared;      // bytes of an SM that blocks can have
  double matrixClocks;      // a quarter of an SM is busy with an mma.m16n8k16
  double matrixPeak;        // FLOP per second by whatever instruction does best
  double
      graph; // seconds of a CUDA graph of one kernel that does nothing: before the
             // first launch of a call
  double launch; // seconds from the end of a kernel to the next one's start
  double earlyLaunch; // the same to one that waits itself (griddepcontrol)
  double
      start; // seconds that a kernel takes beside what is counted: its blocks begin,
             // and nothing of its code is in a cache
};

/// That a single SM gets from L2 in a clock.
inline constexpr double l2BytesOfSM = 64;

inline constexpr double flopOfProduct = 2.0 * 16 * 8 * 16; // mma.m16n8k16

/// What matrixClocks are for as much of a wgmma: at the best rate.
constexpr double warpgroupMatrixClocks(const Card &card) {
  return flopOfProduct * 4 * card.multiprocessors * card.clock /
         card.matrixPeak;
}

/// Throws Failure where the name is unknown.
const Card &findCard(const std::string &name);
std::span<const Card> cards();

/// Blocks of a kernel that an SM can hold at once.
uint32_t residentBlocks(const Card &card, uint32_t threads, uint32_t registers,
                        uint32_t sharedBytes);

} // namespace kvc::ptx

#endif // KVC_PTX_PROFILE_CARDS_H
