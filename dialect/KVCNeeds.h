//===- KVCNeeds.h - what an op needs to be computed -----------------------===//
//
// Each op says it once (KVCNeeds.cpp); what to do about it is the passes' and
// the kernel builders' business. Nothing here knows how a kernel is built.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_DIALECT_KVCNEEDS_H
#define KVC_DIALECT_KVCNEEDS_H

#include "dialect/KVCAxes.h"

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace kvc {

/// What the engine hands over, beside lengths and budgets.
enum class EngineInput {
  Queries,          // the last of each sequence
  Keys,             // after RoPE
  RawKeys,          // before RoPE
  Values,           //
  OutputProjection, // the layer's weights
  Table,            // importance of each query head of each layer
  Layer,            // its index, and how many there are
  State,            // what is carried from layer to layer
  NewQueries,       // how many no earlier run has had
  RowState,         // numbers that rows carry from run to run
  Since,            // tokens that earlier runs have had behind the prompt
  Members,          // what the rows of a merged cache represent
  Angles,           // cosines and sines of positions
};

/// What kernels in front of all others make, once for a policy.
enum class Prepared {
  LogSumExp, // of the queries that are read; the engine may have it
  Gram,      // the quadratic form that bounds norms, and its sums
};

/// How an op cuts the past into segments, and whether it looks at the one
/// behind a token's own.
struct Cut {
  mlir::Value length, from;
  bool next;
};

struct Needs {
  /// The only kind of kernel that can compute it; none for what is computed at
  /// a point, wherever its operands are known.
  std::optional<KernelKind> kernel = {};
  /// A columns kernel that makes its operand can compute it as well, where it has every
  /// token once.
  bool joinsColumns = false;
  /// Only where a kernel has every token of a head once can it be computed.
  bool tokensOnce = false;
  llvm::SmallVector<EngineInput, 2> inputs = {};
  /// How many of the last queries it reads, kDynamic for all.
  int64_t queries = 0;
  std::optional<Prepared> prepared = {};
  /// Operands that it reads at many tokens: rows that must lie in memory.
  llvm::SmallVector<mlir::OpOperand *, 1> rows = {};
  /// Reads what other blocks of its own kind of kernel may make: kernels in
  /// front must have stored all operands.
  bool otherBlocks = false;
  /// A block makes it of any head from what kernels in front have stored; and an op that
  /// asks for one number of each head, and for nothing else, so that such a number may be
  /// made in its own kernel.
  bool ofAnyHead = false, asksHeads = false;
  /// Computed at a point from its operands at all heads, or at near tokens.
  bool otherHeads = false, otherTokens = false;
  std::optional<Cut> cut = {};
  /// A columns kernel knows it only behind all query rows, or all heads.
  bool late = false;
  /// Too much work to be done again by every block that reads it.
  bool costly = false;
  /// Walks a head's channels: too much work to be done again for every neighbour
  /// in a pool.
  bool walksChannels = false;
  /// Selects by its only row; that of the last such op are the policy's scores.
  bool ranks = false;
  /// How many of its results, from the first on, are stored in the model's
  /// type.
  unsigned inModelType = 0;
  /// How many of its results, from the first on, blocks add to: a kernel in
  /// front has set them to 0.
  unsigned accumulates = 0;
  /// Writes its results itself, beside each other: a value of them is not known
  /// at a point of the kernel, so they must be results of it.
  bool writesResults = false;
};

/// What any op needs; nothing for those of other dialects, which are
/// elementwise, and for null, which makes a value of another kernel.
Needs needsOf(mlir::Operation *op);

/// True for a value to which blocks add (Needs::accumulates).
bool isAddedTo(mlir::Value value);

/// Marks ops of level fused.
template <typename ConcreteOp>
class OfLevelFused : public mlir::OpTrait::TraitBase<ConcreteOp, OfLevelFused> {
};

} // namespace kvc

#endif // KVC_DIALECT_KVCNEEDS_H
