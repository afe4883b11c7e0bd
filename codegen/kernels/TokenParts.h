//===- TokenParts.h - numbers that parts of a head's tokens have ----------===//
//
// A reduction over tokens of what a head has is made in two kernels: of parts of the
// tokens, by the kernel that has them, and of these. A columns kernel has parts of 128
// tokens, a spans kernel its spans.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_TOKENPARTS_H
#define KVC_CODEGEN_KERNELS_TOKENPARTS_H

#include "codegen/kernels/RowBlock.h"

namespace kvc {

/// What is known of a part, and of all tokens: a number, or of a sum of exponentials the
/// maximum and the sum below it.
class TokenParts {
public:
  using Values = KernelBuilder::Values;

  /// Of an op that makes parts or combines them.
  explicit TokenParts(mlir::Operation *op);

  mlir::Operation *const op;
  const bool isExpSum;
  /// Of a sum of exponentials that of the maximum, which is its first number.
  const ReduceKind kind;
  static bool isPart(mlir::Operation *op) {
    return llvm::isa<ReducePartOp, ExpSumPartOp>(op);
  }

  mlir::Value value() const { return op->getOperand(0); }
  int64_t numbers() const { return isExpSum ? 2 : 1; }
  /// Of what all lanes of the warp have, in a tree. Lanes without a token have where the
  /// reduction starts.
  Values ofLanes(KernelBuilder &k, llvm::ArrayRef<Expr> values) const;
  /// Of parts beside each other, in order.
  Values joined(KernelBuilder &k, llvm::ArrayRef<Values> parts) const;
  /// Before its end, of `count` parts, of which each lane of the warp has some; part(i,
  /// number). So many of a lane are read `together`.
  Values ofAll(KernelBuilder &k, Expr count, int64_t together,
               llvm::function_ref<Expr(Expr, int64_t)> part) const;
};

/// Writes what a spans kernel's block has of its span.
void reduceSpan(RowBlock &row, const TokenParts &parts);

/// What a kernel in front has made, of all tokens of the block's head, by member of the
/// group and number.
llvm::SmallVector<KernelBuilder::Values>
combineSpans(RowBlock &row, const TokenParts &parts,
             llvm::ArrayRef<std::string> inputs);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_TOKENPARTS_H
