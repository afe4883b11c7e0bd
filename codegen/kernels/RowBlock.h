//===- RowBlock.h - one block, one KV head: what its parts share ----------===//

#ifndef KVC_CODEGEN_KERNELS_ROWBLOCK_H
#define KVC_CODEGEN_KERNELS_ROWBLOCK_H

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/ThreadBlock.h"

namespace kvc {

/// The block of a rows kernel: one KV head of one sequence.
struct RowBlock {
  static constexpr int64_t threads = 512;

  KernelBuilder &k;
  ThreadBlock &block;
  KernelOp kernel;
  SequenceScalars s;
  Expr head;
  /// Reads values that the block, or a kernel in front, has stored.
  LeafReader leaf;

  /// The policy's values at a token of the block's head.
  PointEval at(Expr token, Expr channel = {}) {
    return PointEval(k, s, leaf, Point{head, -1, {}, token, channel});
  }
  /// Calls `body` with the tokens of the past, spread over the threads.
  void forTokens(llvm::function_ref<void(Expr)> body);
  /// `value(token)` over the past, reduced in a fixed tree.
  Expr overTokens(ReduceKind kind, llvm::function_ref<Expr(Expr)> value);
  /// The buffer of a value that the kernel yields.
  Buffer outputOf(mlir::Value value);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_ROWBLOCK_H
