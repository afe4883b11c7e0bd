//===- SequenceScalars.h - scalars of a sequence, or of its head ----------===//
//
// What all points of a block have in common: lengths and counts of tokens, and what a
// policy makes of these. A count that a policy has computed may be below 0, and stands for
// no tokens then.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_SEQUENCESCALARS_H
#define KVC_CODEGEN_KERNELS_SEQUENCESCALARS_H

#include "codegen/kernels/CacheRows.h"

#include "llvm/ADT/DenseMap.h"

namespace kvc {

/// Sequence-wide scalars of the running block, or, where heads have rows of their
/// own, those of its head.
struct SequenceScalars {
  Expr sequence; // index into the batch
  Expr length;   // T
  Expr budget;   // B
  Expr rows;     // n: T, or the head's rows
  Expr window;   // w': min(w, B), or how many of these the head has rows of
  Expr past;     // n - w'
  Expr unused;   // min(w, B) - w': 0, or of a head that may have fewer
  /// Where code is made that runs for rows that are positions alone.
  bool rowsArePositions = false;
  /// Where code is made for tokens alone all of whose neighbours that a pool may ask for
  /// are in the past.
  bool neighboursExist = false;
  /// Each kvc.allocate_layers of the kernel: a warp's lanes make it together,
  /// so it is known before they part.
  llvm::SmallDenseMap<mlir::Operation *, Expr, 2> shares;
};

/// A policy scalar (budget, length, constants, arithmetic on them).
Expr evalScalar(KernelBuilder &k, const SequenceScalars &s, mlir::Value value);

/// Reads T and B, evaluates what a kernel's yield protects and what whole warps
/// compute of its body. Without a yield nothing is protected.
SequenceScalars openSequence(KernelBuilder &k, Expr sequence,
                             YieldOp yield = {});
/// The same for a KV head: where heads have rows of their own, its rows, window and
/// past.
SequenceScalars openHead(KernelBuilder &k, Expr sequence, Expr head,
                         YieldOp yield = {});
/// What is known of a sequence, as one of its KV heads has it.
SequenceScalars narrowToHead(KernelBuilder &k, const SequenceScalars &sequence,
                             Expr head, YieldOp yield);
/// For the block's KV head, grid axis y.
SequenceScalars openHead(KernelBuilder &k, Expr sequence, YieldOp yield = {});

/// `count`, of type index, as the number of tokens that `source` stands for:
/// what may be below 0 counts as 0.
Expr atLeastNone(KernelBuilder &k, Expr count, mlir::Value source);

/// `index`, which `source` stands for, as i32: its lowest bits where it needs more.
Expr lowestWord(KernelBuilder &k, Expr index, mlir::Value source);

/// True where the block's head keeps all its rows, whatever they score: where what
/// it has is within the budget; where heads share the budget, what all have
/// together; where layers do, T; where both do, T or what a layer without a share has
/// room for.
Expr keepsAll(KernelBuilder &k, const SequenceScalars &s, PolicyOp policy);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_SEQUENCESCALARS_H
