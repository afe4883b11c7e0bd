//===- SegmentRanks.h - places of scores in their segment -----------------===//

#ifndef KVC_CODEGEN_KERNELS_SEGMENTRANKS_H
#define KVC_CODEGEN_KERNELS_SEGMENTRANKS_H

#include "codegen/kernels/RowBlock.h"

namespace kvc {

/// kvc.segment rank: how many of a segment's tokens kvc.topk would mark after one. Each
/// thread sets its token's key against all of the segment, four at a time from shared
/// memory where 8 KiB hold them, else one by one where the scores are.
class SegmentRanks {
public:
  SegmentRanks(KernelBuilder &k) : k(k) {}

  /// At the top of a kernel: takes shared memory for segments of up to `tokens`, and
  /// for each member of the group where the scores are of query heads. `all`: none has
  /// more.
  void add(SegmentOp op, int64_t tokens, bool all);
  /// Puts the keys of these tokens there. The whole block; one barrier.
  void run(SegmentOp op, const RowBlock &tokens);
  /// The rank of the token at a point, whose own score is `value`.
  Expr at(SegmentOp op, const RowBlock &tokens, const Point &point,
          Expr value) const;

private:
  Expr amongStaged(const Buffer &keys, const RowBlock &tokens,
                   const Point &point, Expr key) const;
  Expr oneByOne(SegmentOp op, const RowBlock &tokens, const Point &point,
                Expr key) const;

  struct Keys {
    Buffer
        memory; // [member][token], padded to whole steps with what is above all keys
    int64_t most; // tokens
    bool all;     // none has more
  };
  KernelBuilder &k;
  llvm::SmallDenseMap<mlir::Operation *, Keys, 2> staged;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_SEGMENTRANKS_H
