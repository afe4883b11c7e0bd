//===- Cache.h - rows of a ragged cache on their way ----------------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_CACHE_H
#define KVC_EXECUTOR_CUDA_KERNELS_CACHE_H

#include "executor/cuda/kernels/Args.h"
#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

inline uint64_t placeOf(const PlacesArgs &p, uint32_t head) {
  uint64_t at =
      p.at ? uint64_t(uint32_t(p.at[head])) : uint64_t(head) * p.stride;
  return at + (p.plus ? uint32_t(p.plus[head]) : 0) + p.extra;
}

/// A warp moves a row.
inline void moveRows(const Simt &simt, const MoveRowsArgs &a) {
  uint32_t head = simt.blockY();
  uint32_t count = (a.counts ? uint32_t(a.counts[head]) : 0) + a.extra;
  uint32_t row = simt.blockX() * movedRows + simt.thread() / warpSize;
  if (row >= count)
    return;
  uint64_t from = (placeOf(a.from, head) + row) * a.rowWords;
  uint64_t to = (placeOf(a.to, head) + row) * a.rowWords;
  for (uint32_t i = simt.thread() % warpSize; i < a.rowWords; i += warpSize) {
    static_cast<uint32_t *>(a.toK)[to + i] =
        static_cast<const uint32_t *>(a.fromK)[from + i];
    static_cast<uint32_t *>(a.toV)[to + i] =
        static_cast<const uint32_t *>(a.fromV)[from + i];
  }
  if (simt.thread() % warpSize == 0)
    a.toPositions[placeOf(a.to, head) + row] =
        a.addPosition +
        (a.fromPositions ? a.fromPositions[placeOf(a.positionsFrom, head) + row]
                         : int32_t(row));
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_CACHE_H
