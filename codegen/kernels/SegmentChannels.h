//===- SegmentChannels.h - vectors set against a segment, per channel -----===//

#ifndef KVC_CODEGEN_KERNELS_SEGMENTCHANNELS_H
#define KVC_CODEGEN_KERNELS_SEGMENTCHANNELS_H

#include "codegen/kernels/LaneRows.h"
#include "codegen/kernels/RowBlock.h"

#include "llvm/ADT/MapVector.h"

namespace kvc {

/// The reductions over the segment that a kvc.segment is made from.
llvm::SmallVector<ReduceKind> reductionsOf(SegmentKind kind);

/// Statistics of a segment's vectors over its tokens, for each channel and, where they
/// are of query heads, member of the group.
class SegmentChannels {
public:
  /// At the top of a kernel, for the `ops` on vectors: takes shared memory, a few f32
  /// a channel each, and one a warp and channel for all.
  SegmentChannels(KernelBuilder &k, LaneWalk &walk,
                  llvm::ArrayRef<SegmentOp> ops);

  /// Makes what `op` is made from over `tokens`: warps read whole rows, a lane has the
  /// numbers of its channels in registers, and warps are combined in ascending order.
  /// All threads of the block; three barriers for each member.
  void run(SegmentOp op, const RowBlock &tokens, const LaneNeeds &needs);
  /// The value at a point, whose own makes own().
  Expr against(SegmentOp op, const Point &point,
               llvm::function_ref<Expr()> own) const;

private:
  void storeChannel(SegmentOp op, const RowBlock &tokens, int64_t member,
                    Expr channel);

  KernelBuilder &k;
  LaneWalk &walk;
  Buffer parts; // [reduction][warp][channel]
  /// By [number][member][channel].
  llvm::SmallDenseMap<mlir::Operation *, Buffer> numbers;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_SEGMENTCHANNELS_H
