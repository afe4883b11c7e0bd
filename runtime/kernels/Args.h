//===- Args.h - what the runtime's kernels are launched with --------------===//
//
// A kernel takes one of these structs by value. Pointers are device memory, strides are
// in bytes. E is the element type in the kernel's name (f32, f16, bf16), D the head
// dimension that it has registers for, at least d.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ARGS_H
#define KVC_RUNTIME_KERNELS_ARGS_H

#include "runtime/kernels/TensorMap.h"

#include <stdint.h>

namespace kvc::gpu {

/// By sequence and KV head.
struct NumbersArgs {
  int32_t *data;
  int64_t batchStride, headStride;
};

/// kvc_plane.
struct PlaneArgs {
  char *data;
  int64_t batchStride, headStride, rowStride, pageStride;
};

/// kvc_member_table.
struct MembersArgs {
  int32_t *rows, *positions;
  float *norms;
  int32_t *counts;
  uint32_t capacity;
};

/// kvc_cache_view. What is not there is null.
struct ViewArgs {
  PlaneArgs k, v, positions;
  NumbersArgs counts, offsets, table, vTable;
  int32_t *lengths;
  MembersArgs members;
  uint32_t batch, kvHeads, d;
  uint32_t slots; // that offset and count end within
  uint32_t paged; // nonzero: in pages of 1 << pageShift slots
  uint32_t pageShift, pages;
  uint32_t positionsBySlot;
  uint32_t headsMeet, sequencesMeet; // in the same slots, one behind the other
  uint32_t aligned; // K and V rows begin and end at multiples of 16 bytes
  int32_t *status;  // or null: gets KVC_DATA_* bits
};

/// attend_view_E_D_keys, _rows, _rows32 and _rows64 (Sharing in AttentionState.h), grid
/// [blocks * kvHeads * batch, splits]. The rows of a KV head are its queries times the
/// query heads of its group.
struct AttendViewArgs {
  ViewArgs view;
  /// Of _rows64. Dimensions: element, slot, KV head, sequence; of pages element, slot in its
  /// page, KV head, page. One whose stride is 0 has the extent 1.
  BoxArgs boxes;
  PlaneArgs q, out; // no pages
  float *lse;       // or null
  int64_t lseBatchStride, lseHeadStride;
  const float *rope;
  uint32_t ropePositions;
  uint32_t group, queries, blocks;
  float scale;
  uint32_t rowsAligned; // of q, as the view's are
  uint32_t outFloat;    // nonzero: out is f32, else E
  uint32_t lseBase2;
  uint32_t splits, splitKeys, mostKeys; // of a head
  float *parts; // [batch, q_heads, queries, splits, d + 2] if splits > 1
};

/// add_view_parts_E_D, with the same arguments: a block for an output row, grid
/// [batch * q_heads * queries].

/// append_E, grid [rows * kvHeads * batch]: a block for a new row of a head. Behind it
/// append_counts, grid [batch].
constexpr uint32_t appendThreads = 128;
struct AppendArgs {
  ViewArgs view;
  PlaneArgs k, v; // the new rows
  uint32_t rows;
};

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ARGS_H
