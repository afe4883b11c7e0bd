//===- TokenParts.h - numbers that parts of a head's tokens have ----------===//
//
// A reduction over tokens of what a head has is made in two kernels: of parts of the
// tokens, by the kernel that has them, and of these. A columns kernel has parts of 128
// tokens, or of 64 for a deviation (TokenDeviations.h), a spans kernel its spans.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_TOKENPARTS_H
#define KVC_CODEGEN_KERNELS_TOKENPARTS_H

#include "codegen/kernels/RowBlock.h"

namespace kvc {

/// True for what a columns kernel walks all heads for, in a cache of rows over positions.
/// Vectors are reduced over heads where somebody asks for them.
bool isOverAllHeads(ReduceOp reduce);

/// What is known of a part, and of all tokens: a number; of a sum of exponentials the
/// maximum and the sum below it; of a deviation how many tokens there are, their mean, and
/// the squares of how far they are from it.
class TokenParts {
public:
  using Values = KernelBuilder::Values;

  /// Of an op that makes parts or combines them.
  explicit TokenParts(mlir::Operation *op);

  mlir::Operation *const op;
  const bool isExpSum, isDeviation;
  /// Of a sum of exponentials that of the maximum, which is its first number; of a
  /// deviation that of a mean.
  const ReduceKind kind;
  static bool isPart(mlir::Operation *op) {
    return llvm::isa<ReducePartOp, ExpSumPartOp, DeviationPartOp>(op);
  }

  mlir::Value value() const { return op->getOperand(0); }
  int64_t numbers() const { return isDeviation ? 3 : isExpSum ? 2 : 1; }
  /// Of how many tokens a columns kernel has parts: those of its smallest blocks.
  int64_t tokens() const { return isDeviation ? splitTokens / 2 : splitTokens; }
  /// Of what all lanes of the warp have, in a tree. Lanes where a value does not `exist`
  /// have where the reduction starts.
  Values ofLanes(KernelBuilder &k, llvm::ArrayRef<Expr> values,
                 llvm::ArrayRef<Expr> exist) const;
  /// Of parts beside each other, in order.
  Values joined(KernelBuilder &k, llvm::ArrayRef<Values> parts) const;
  /// Before its end, of `count` parts, of which each lane of the warp has some; part(i,
  /// number). So many of a lane are read `together`.
  Values ofAll(KernelBuilder &k, Expr count, int64_t together,
               llvm::function_ref<Expr(Expr, int64_t)> part) const;
};

/// What a warp's lanes make together of `count` parts, of which each has some; make(i)
/// gives so many numbers of one.
KernelBuilder::Values
reduceParts(KernelBuilder &k, ReduceKind kind, Expr count, int64_t together,
            int64_t numbers,
            llvm::function_ref<KernelBuilder::Values(Expr)> make);
/// How far x is from a mean, squared, `count` times, and what there is already.
Expr squareFrom(Expr x, Expr mean, Expr count, Expr before);
/// So many numbers of each member of the group, which a warp makes and the block has.
llvm::SmallVector<KernelBuilder::Values>
byMembers(KernelBuilder &k, int64_t members, int64_t numbers,
          llvm::function_ref<KernelBuilder::Values(Expr member)> make);

/// Writes what a spans kernel's block has of its span.
void reduceSpan(RowBlock &row, const TokenParts &parts);

/// What a kernel in front has made, of all tokens of the block's head, by member of the
/// group and number.
llvm::SmallVector<KernelBuilder::Values>
combineSpans(RowBlock &row, const TokenParts &parts,
             llvm::ArrayRef<std::string> inputs);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_TOKENPARTS_H
