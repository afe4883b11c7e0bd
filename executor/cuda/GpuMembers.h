//===- GpuMembers.h - what the rows of a merged layer represent, on a GPU -===//
//
// Head h has counts[h] members, and as many more as the layer has appended since they
// were counted: `extra`, which the layer knows and tells. Each head has room for
// `capacity`.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUMEMBERS_H
#define KVC_EXECUTOR_CUDA_GPUMEMBERS_H

#include "executor/cuda/GpuActivations.h"
#include "executor/cuda/kernels/Args.h"
#include "kvc/cache.h"

#include <algorithm>

namespace kvc::gpu {

/// Of the head that has most.
inline uint32_t most(const std::vector<int32_t> &counts) {
  return uint32_t(*std::max_element(counts.begin(), counts.end()));
}

/// The table of a policy that merges.
struct KeptMembers {
  const int32_t *rows, *positions; // device [Hkv, capacity]
  const float *norms;              // device [Hkv, capacity]
  const int32_t *counts;           // device [Hkv]; null: it does not merge
  std::vector<int32_t> hostCounts;
  uint32_t capacity;
};

class GpuMembers {
public:
  /// False where rows are not merged.
  explicit operator bool() const { return !hostCounts.empty(); }

  /// A table without members, for `heads` heads.
  void make(Queue &queue, uint32_t heads);
  GpuMembers copy(Queue &queue) const;

  /// Makes room for `room` beside those that are counted.
  void reserve(Queue &queue, uint32_t extra, uint32_t room);
  /// Counts the extra ones, which the layer then must not count itself.
  void count(Queue &queue, uint32_t extra);
  /// Counts the extra ones, adds a policy's behind them, and has room for `room` more.
  /// Their rows are behind those of the layer, rows[h] (device) and the extra ones,
  /// their positions behind `position`.
  void append(Queue &queue, const KeptMembers &kept, const int32_t *rows,
              uint32_t extra, uint32_t position, uint32_t room);

  /// Without the extra ones.
  const std::vector<int32_t> &counted() const { return hostCounts; }
  kvc_member_table table() const;
  MembersArgs args() const;
  /// On the host, by head.
  rt::RaggedCache::Members contents(Queue &queue, uint32_t extra) const;

private:
  Buffer rows, positions, norms;   // [Hkv, capacity]
  Buffer counts;                   // [Hkv]
  std::vector<int32_t> hostCounts; // [Hkv]; empty where rows are not merged
  uint32_t capacity = 0;

  uint32_t heads() const { return uint32_t(hostCounts.size()); }
  /// Room for `longest` members of each head.
  void layOut(Queue &queue, uint32_t extra, uint32_t longest);
  /// To the table; no head has more than `longest` to move.
  void move(Queue &queue, MoveMembersArgs args, uint32_t longest);
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUMEMBERS_H
