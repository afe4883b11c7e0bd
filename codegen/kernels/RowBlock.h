//===- RowBlock.h - one block, one KV head: what its parts share ----------===//

#ifndef KVC_CODEGEN_KERNELS_ROWBLOCK_H
#define KVC_CODEGEN_KERNELS_ROWBLOCK_H

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/ThreadBlock.h"

#include "llvm/ADT/DenseSet.h"

namespace kvc {

/// How a selection counts tokens of a head: in splits of 128, or of so many times as many
/// that there are at most 1024. It follows from the head's own rows. A span is whole splits.
class RowSplits {
public:
  static constexpr int64_t most = 1024;

  RowSplits(KernelBuilder &k, const SequenceScalars &s);
  /// Tokens of a split.
  Expr length() const { return times * splitTokens; }
  /// How many are behind the last one that has one of `tokens`.
  Expr count(Expr tokens) const;
  /// The one that a token is in, index.
  Expr of(Expr token) const;

private:
  Expr times, inverse;
};

/// The block of a rows kernel: one KV head of one sequence. Spans and segments
/// kernels have one per span of the past, or per segment.
struct RowBlock {
  static constexpr int64_t threads = 512;
  /// Tokens of a span: one for each thread, or so many times as many that a head has
  /// at most 16 spans, of 64 splits at most. Each block looks at all of its head where
  /// something is selected, so what all do would grow with the square of T. It follows from
  /// the head's own rows: what else a batch has would change the order of sums.
  static constexpr int64_t spanTokens = threads, mostSpans = 16;
  static Expr spanLength(KernelBuilder &k, const SequenceScalars &s);
  /// The most that heads of up to T rows have, as a grid has it.
  static std::string spanCount();

  KernelBuilder &k;
  ThreadBlock &block;
  KernelOp kernel;
  SequenceScalars s;
  Expr head;
  /// Reads values that the block, or a kernel in front, has stored.
  LeafReader leaf;
  /// The tokens that it walks, and how many a thread has in flight.
  Expr begin, end;
  int64_t together = 4;
  /// Which of its head's blocks it is; 0 where there is but one.
  Expr span = k.index(0);

  /// The policy's values at a token of the block's head.
  PointEval at(Expr token, Expr channel = {}) {
    return PointEval(k, s, leaf, Point{head, -1, {}, token, channel});
  }
  /// Values of one KV head: the group's query heads, or 1.
  int64_t members(mlir::Value value) const;
  /// The tokens, spread over the threads: make(token), then use(token, made), as
  /// KernelBuilder::stream does it.
  using Values = KernelBuilder::Values;
  void forTokens(llvm::function_ref<Values(Expr)> make,
                 llvm::function_ref<void(Expr, llvm::ArrayRef<Expr>)> use);
  /// What else a walk of forTokens makes at each token, and stores. It is made first,
  /// and whoever asks for one of these at the token has it from there (`madeAt`).
  struct Output {
    mlir::Value value;
    Buffer memory; // [batch][heads][tokens]
  };
  llvm::SmallVector<Output> alongside = {};
  /// Has walks do so with what the kernel yields, until `alongside` is cleared; once.
  void storeAlongside(mlir::Value value);
  std::optional<Expr> madeAt(mlir::Value value, const Point &point) const;
  /// How many tokens it walks; as f32.
  Expr tokens() const { return (end - begin).max(k.index(0)); }
  Expr count() const { return tokens().toFloat(); }
  /// `value(token)` over the tokens, reduced in a fixed tree.
  Expr overTokens(ReduceKind kind, llvm::function_ref<Expr(Expr)> value);
  /// The argument, and the buffer, of a value that the kernel yields.
  std::string nameOf(mlir::Value value);
  Buffer outputOf(mlir::Value value) {
    return scratchBuffer(k, nameOf(value), value.getType());
  }
  /// Where a stored value lies. It belongs to the block, also with one head.
  Buffer storeBuffer(StoreOp store) const;
  Expr loadStored(StoreOp store, const Point &point) const;
  /// Stores a stored value; then the whole block may read it.
  void runStore(StoreOp store);
  /// Stores what later kernels read, and no part of the block has written:
  /// neither an op of it, nor a walk alongside.
  void storeOutputs();
  /// Of the running walk, by token.
  using Made = llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, Expr>;
  Made made = Made();
  /// What walks have stored alongside.
  llvm::DenseSet<mlir::Value> stored = {};
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_ROWBLOCK_H
