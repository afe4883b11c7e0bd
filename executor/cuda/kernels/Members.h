//===- Members.h - what the rows of a merged cache represent --------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_MEMBERS_H
#define KVC_EXECUTOR_CUDA_KERNELS_MEMBERS_H

#include "executor/cuda/kernels/Cache.h"

namespace kvc::gpu {

inline void moveMembers(const Simt &simt, const MoveMembersArgs &a) {
  uint32_t head = simt.blockY();
  uint32_t i = simt.blockX() * moveThreads + simt.thread();
  if (i >= uint32_t(a.counts[head]) + a.extra)
    return;
  uint64_t from = placeOf(a.from, head) + i, to = placeOf(a.to, head) + i;
  a.toRows[to] =
      a.fromRows[from] + (a.addRows ? a.addRows[head] : 0) + a.addRow;
  a.toPositions[to] = a.fromPositions[from] + a.addPosition;
  a.toNorms[to] = a.fromNorms[from];
}

/// A warp takes a token of a head. A key of zeros stays one.
template <typename E> void join(const Simt &simt, const JoinArgs &a) {
  uint32_t head = simt.blockY(), lane = simt.thread() % warpSize;
  uint32_t token = simt.blockX() * movedRows + simt.thread() / warpSize;
  if (token >= a.tokens)
    return; // all lanes of the warp
  uint32_t behind = a.extra + token, row = uint32_t(a.counts[head]) + behind;
  uint64_t place = uint64_t(uint32_t(a.offsets[head])) + row;
  const E *k =
      static_cast<const E *>(a.k) + (uint64_t(head) * a.tokens + token) * a.d;
  const E *v =
      static_cast<const E *>(a.v) + (uint64_t(head) * a.vRows + token) * a.d;
  float squares = 0;
  for (uint32_t i = lane; i < a.d; i += warpSize)
    squares += widen(k[i]) * widen(k[i]);
  float norm = __builtin_sqrtf(sumOf(simt, warpSize, squares));
  for (uint32_t i = lane; i < a.d; i += warpSize) {
    float unit = norm == 0 ? 0 : widen(k[i]) / norm;
    static_cast<E *>(a.toK)[place * a.d + i] = narrow<E>(unit);
    static_cast<E *>(a.toV)[place * a.d + i] = v[i];
  }
  if (lane != 0)
    return;
  int32_t position = a.position + int32_t(token);
  uint64_t member = uint64_t(head) * a.members.capacity +
                    uint32_t(a.members.counts[head]) + behind;
  a.positions[place] = position;
  a.members.rows[member] = int32_t(row);
  a.members.positions[member] = position;
  a.members.norms[member] = norm;
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_MEMBERS_H
