//===- Card.h - kernels that show what a GPU can do -----------------------===//
//
// Each does one thing `repeats` times, so that its time says what the thing costs.
// What they compute is stored, or it would not be computed.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_COST_KERNELS_CARD_H
#define KVC_EXECUTOR_COST_KERNELS_CARD_H

#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

/// Threads of a block of all of them but empty, chase.
constexpr uint32_t cardThreads = 256;
/// Matrix products, exponentials and conversions of a thread that do not wait for each
/// other.
constexpr uint32_t independent = 8;
/// Loads of a thread in a row; repeats are a multiple of it.
constexpr uint32_t inFlight = 4;

/// Moved by one instruction, as a struct of four words is not.
using Piece = uint32_t __attribute__((vector_size(16)));

/// blocks: of the grid.
struct CardArgs {
  const void *from;
  void *to; // a word for each thread, but for copy
  uint64_t pieces;
  uint32_t blocks, repeats;
};

inline void empty(const Simt &, const CardArgs &) {}

inline void store(const Simt &simt, const CardArgs &a, uint32_t word) {
  static_cast<uint32_t *>(
      a.to)[uint64_t(simt.blockX()) * cardThreads + simt.thread()] = word;
}

/// to = from, `pieces` of them, `inFlight` of a thread at a time; once.
inline void copyMemory(const Simt &simt, const CardArgs &a) {
  uint64_t threads = uint64_t(a.blocks) * cardThreads;
  uint64_t i = uint64_t(simt.blockX()) * cardThreads + simt.thread();
  const auto *from = static_cast<const Piece *>(a.from);
  auto *to = static_cast<Piece *>(a.to);
#pragma unroll 1
  for (; i + (inFlight - 1) * threads < a.pieces; i += inFlight * threads) {
    Piece held[inFlight];
#pragma unroll
    for (uint32_t j = 0; j < inFlight; ++j)
      held[j] = from[i + j * threads];
#pragma unroll
    for (uint32_t j = 0; j < inFlight; ++j)
      to[i + j * threads] = held[j];
  }
  for (; i < a.pieces; i += threads)
    to[i] = from[i];
}

/// Reads all pieces, every time by other blocks, whose SMs have not got them.
inline void readMemory(const Simt &simt, const CardArgs &a) {
  uint32_t threads = a.blocks * cardThreads, word = 0;
  for (uint32_t r = 0; r < a.repeats; ++r) {
    uint32_t block = (simt.blockX() + r * 37) % a.blocks;
    for (uint64_t i = uint64_t(block) * cardThreads + simt.thread();
         i < a.pieces; i += threads) {
      Piece piece = static_cast<const Piece *>(a.from)[i];
      word ^= piece[0] ^ piece[1] ^ piece[2] ^ piece[3];
    }
  }
  store(simt, a, word);
}

/// One thread goes from each piece to the one that its first word names, and on from
/// where the last run has ended: what that one has read is in the cache.
inline void chase(const Simt &, const CardArgs &a) {
  uint32_t at = *static_cast<uint32_t *>(a.to);
  for (uint32_t r = 0; r < a.repeats; ++r)
    at = static_cast<const Piece *>(a.from)[at][0];
  *static_cast<uint32_t *>(a.to) = at;
}

/// `chains` m16n8k16 products of bf16 of a warp at once.
template <int chains> void multiply(const Simt &simt, const CardArgs &a) {
  float c[chains][4];
  for (int i = 0; i < chains; ++i) // alike they would be one product
    c[i][0] = c[i][1] = c[i][2] = c[i][3] = float(i);
  const auto *words = static_cast<const uint32_t *>(a.from);
  uint32_t left[4], right[2];
  for (int i = 0; i < 4; ++i)
    left[i] = words[(simt.thread() + i * 32) % 128];
  for (int i = 0; i < 2; ++i)
    right[i] = words[(simt.thread() + i * 64 + 7) % 128];
#pragma unroll 1
  for (uint32_t r = 0; r < a.repeats; ++r)
#pragma unroll
    for (int i = 0; i < chains; ++i)
      simt.mma<BF16, 1>(left, right, c[i]);
  float sum = 0;
  for (int i = 0; i < chains; ++i)
    sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
  store(simt, a, __builtin_bit_cast(uint32_t, sum));
}

/// Pieces out of 16 KiB, which stay in the SM's L1: a warp reads 8 rows of 64 bytes,
/// as fragments of matrices lie in memory, or 512 bytes in a row.
template <bool rows> void loadPieces(const Simt &simt, const CardArgs &a) {
  constexpr uint32_t all = 1024; // pieces
  uint32_t lane = simt.thread() % warpSize, word = 0;
  uint32_t own = rows ? lane / 4 * 16 + lane % 4 : lane;
#pragma unroll 1
  for (uint32_t r = 0; r < a.repeats; r += inFlight)
#pragma unroll
    for (uint32_t i = 0; i < inFlight; ++i) {
      uint32_t at = (own + (r + i) * (rows ? 132 : 32)) % all;
      Piece piece = static_cast<const Piece *>(a.from)[at];
      word ^= piece[0] ^ piece[1] ^ piece[2] ^ piece[3];
    }
  store(simt, a, word);
}

struct MatrixShared {
  alignas(16) BF16 tile[64][72];
};

/// Four 8 x 8 matrices out of the block's memory, without bank conflicts.
inline void loadMatrices(const Simt &simt, const CardArgs &a) {
  KVC_SHARED(MatrixShared, shared, simt);
  const auto *from = static_cast<const BF16 *>(a.from);
  for (uint32_t i = simt.thread(); i < 64 * 72; i += cardThreads)
    shared.tile[i / 72][i % 72] = from[i % 1024];
  simt.barrier();
  uint32_t word = 0;
#pragma unroll 1
  for (uint32_t r = 0; r < a.repeats; r += inFlight)
#pragma unroll
    for (uint32_t i = 0; i < inFlight; ++i) {
      uint32_t fragment[4];
      simt.stacked(fragment, &shared.tile[i * 16][r / inFlight % 4 * 16], 72);
      word ^= fragment[0] ^ fragment[1] ^ fragment[2] ^ fragment[3];
    }
  store(simt, a, word);
}

/// step(x) in the place of x, of `independent` numbers a thread.
template <typename Step>
void replaceNumbers(const Simt &simt, const CardArgs &a, Step step) {
  float x[independent];
  for (uint32_t i = 0; i < independent; ++i)
    x[i] = -float(simt.thread() + i) / 1024;
#pragma unroll 1
  for (uint32_t r = 0; r < a.repeats; ++r)
#pragma unroll
    for (float &number : x)
      number = step(number);
  uint32_t word = 0;
  for (float number : x)
    word ^= __builtin_bit_cast(uint32_t, number);
  store(simt, a, word);
}

/// 2 to the x.
inline void exponentials(const Simt &simt, const CardArgs &a) {
  replaceNumbers(simt, a, [&](float x) { return simt.exp2(x) - 1; });
}

/// Two numbers to bf16 by one instruction.
inline void conversions(const Simt &simt, const CardArgs &a) {
  replaceNumbers(simt, a, [](float x) {
    return __builtin_bit_cast(float, narrowPair<BF16>(x, x));
  });
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_COST_KERNELS_CARD_H
