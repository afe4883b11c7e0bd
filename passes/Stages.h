//===- Stages.h - when an op of a policy can run --------------------------===//
//
// Stages, not patterns: each op gets the earliest stage in which it can run.
// They come in sevens: sequence (what needs no scores comes first), columns,
// segments, rows, spans, nearest, norms. In front of all is the stage of what rows carry,
// and in front of that the one of what members have; both have no window.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PASSES_STAGES_H
#define KVC_PASSES_STAGES_H

#include "dialect/KVCDialect.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace kvc {

/// Where a value is read, as seen from the point that an op computes.
struct Reach {
  bool otherHeads = false;
  bool otherTokens = false;
};

class Stages {
public:
  enum Kind { Sequence, Columns, Segments, Rows, Spans, Nearest, Norms };
  static constexpr int kinds = 7;
  /// A columns stage over every row: what rows carry.
  static constexpr int carried = -1;
  /// In front of it one over every member of the rows of a merged cache.
  static constexpr int ofMembers = -2;
  static Kind kindOf(int stage) {
    return stage < 0 ? Columns : Kind(stage % kinds);
  }
  /// None for kernels of one op, which belong to no stage.
  static std::optional<Kind> kindOf(KernelKind kernel);

  /// Gives every op of a policy with axes its stage. Fails, with an error at
  /// the op, where no kernel could run it.
  llvm::LogicalResult assign(PolicyOp policy);

  /// Fails, with an error at the op, where a kernel of level fused holds what
  /// one launch of its kind cannot run (C4 of kvc.kernel).
  static llvm::LogicalResult verify(KernelOp kernel);

  /// Ops that have a stage, in order.
  const llvm::MapVector<mlir::Operation *, int> &all() const { return stageOf; }
  int of(mlir::Operation *op) const { return stageOf.lookup(op); }
  /// Cheap ops have no stage: they are cloned into every kernel that uses them.
  bool isCheap(mlir::Operation *op) const { return !stageOf.count(op); }

  /// True for attention rows and for vectors: a value with a query or channel
  /// axis and tokens is never stored, nor does it belong to a stage. Whoever
  /// reduces it computes it.
  static bool isVirtual(mlir::Operation *op);

  /// What an op reads, through values that are never stored.
  static void forSources(mlir::Operation *op,
                         llvm::function_ref<void(mlir::Value, Reach)> body);
  /// Who reads a value, through values that are never stored.
  static void forUsers(mlir::Value value,
                       llvm::function_ref<void(mlir::Operation *)> body);
  /// The virtual ops that an op is computed from, each before its users.
  static void forVirtual(mlir::Operation *op,
                         llvm::function_ref<void(mlir::Operation *)> body);

  /// True for attention rows.
  static bool hasQueries(mlir::Type type);

  /// True for a value that a columns kernel makes, and with it a part of the value's
  /// deviation over tokens.
  bool canHaveDeviation(mlir::Value value) const;

private:
  llvm::MapVector<mlir::Operation *, int> stageOf;
  /// How the past is cut in a segments stage.
  llvm::DenseMap<int, Cut> cutOf;

  /// Norms that whoever reads them makes again from a row that it reads anyway, so
  /// that no kernel stores them: they are cheap.
  llvm::DenseSet<mlir::Operation *> remade;

  /// The first stage that norms behind the projection may have. Beside attention rows it is
  /// one behind theirs, in which nothing else walks all heads: a warp's registers then hold
  /// values alone, and each block those of one head.
  int firstOfNorms = Sequence;

  /// True where a columns kernel has every token of a head once, so that it can reduce
  /// over them, and where it walks no heads beside.
  bool tokensOnce = false;

  void place(mlir::Block &body);
  bool normsMeetHeads() const;
  void findRemade(mlir::Block &body);
  bool computeCheap(mlir::Operation *op) const;
  void assignMembers(mlir::Block &body);
  llvm::LogicalResult assignCarried(mlir::Block &body);
  bool joinsCarried(mlir::Operation *op) const;
  int place(mlir::Operation *op);
  int stageAfter(mlir::Operation *op, mlir::Value value, Reach reach) const;
  int segmentsStage(int stage, mlir::Operation *op);
  bool isComputedFrom(mlir::Value value, int stage,
                      llvm::function_ref<bool(mlir::Operation *)> is) const;
  bool isFinishedLate(mlir::Value value, int stage) const;
  static llvm::LogicalResult checkRows(mlir::Block &body);
  static llvm::LogicalResult checkSegments(mlir::Block &body);
};

} // namespace kvc

#endif // KVC_PASSES_STAGES_H
