//===- TileKernel.h - some query rows against some keys, in vectors -------===//
//
// The one inner loop of attention on the host, as an online softmax (Milakov and
// Gimelshein 2018; Dao et al. 2022). It is written in vectors of the compiler's, of
// which TileKernel.cpp makes machine code for each kind of vector unit.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_ATTEND_TILEKERNEL_H
#define KVC_RUNTIME_ATTEND_TILEKERNEL_H

#include "kvc/cache.h"

#include <cstddef>
#include <span>

namespace kvc::rt {

constexpr uint32_t tileKeys = 64;
constexpr uint32_t tileRows = 16;

/// What query rows have seen so far. Rows of `values` are KVC_MAX_HEAD_DIM apart, like
/// those of queries.
struct Sums {
  alignas(64) float values[tileRows][KVC_MAX_HEAD_DIM];
  float most[tileRows];   // logit, to base 2
  float weight[tileRows]; // sum of 2^(logit - most)
};

/// Query rows [firstRow, firstRow + rows), every one of which sees every key.
struct Tile {
  const float (*queries)[KVC_MAX_HEAD_DIM]; // by scale * log2(e)
  Sums *sums;
  uint32_t firstRow, rows; // at most tileRows
  uint32_t dim;
  uint32_t count; // of keys, 1 to tileKeys
  kvc_dtype keyType, valueType;
  const std::byte *const *keys, *const *values;
  /// Rows that will be asked for next: the machine cannot guess them where pages are
  /// small. Of the values' type.
  const std::byte *const *nextKeys, *const *nextValues;
  uint32_t nextCount;
};

using TileKernel = void (*)(const Tile &);

/// What this machine can run, the fastest first.
std::span<const TileKernel> tileKernels();

} // namespace kvc::rt

#endif // KVC_RUNTIME_ATTEND_TILEKERNEL_H
