//===- Kernels.h - one builder for each kind of kernel --------------------===//

#ifndef KVC_CODEGEN_KERNELS_KERNELS_H
#define KVC_CODEGEN_KERNELS_KERNELS_H

#include "codegen/kernels/CacheRows.h"
#include "codegen/kernels/PointEval.h"

namespace kvc {

/// Where a kernel is built: at `builder`'s place, named `name`. `scratch`
/// gives, for each "scratch.N", the element type.
struct KernelSite {
  mlir::ImplicitLocOpBuilder &builder;
  std::string name;
  Shape shape;
  llvm::StringMap<mlir::Type> scratch;
  /// For each kernel operand: the argument that holds it.
  llvm::SmallVector<std::string> inputs;
  /// The argument with the keys of members; empty for kernels over rows.
  std::string keys = {};
  /// The longest past whose selections need no lists of candidates (Candidates.h), in
  /// tokens of the call's longest sequence.
  int64_t listsAbove = 0;
  /// The form for GPUs that multiply by warpgroups is built (WarpgroupForms.h).
  bool warpgroups = false;
  /// Which form is built of a kernel that has two by length: that of calls whose longest
  /// sequence is short, or of all others.
  bool ofShortCalls = false;
};

/// True where there is such a form.
bool hasWarpgroupForm(KernelOp kernel, const KernelSite &site);
/// True where short calls have a kernel of their own, which leaves the same.
bool hasFormOfShortCalls(KernelOp kernel, const KernelSite &site);

void buildStatistics(KernelOp kernel, const KernelSite &site);
void buildCombine(KernelOp kernel, const KernelSite &site);
void buildColumns(KernelOp kernel, const KernelSite &site);
void buildSegments(KernelOp kernel, const KernelSite &site);
/// Of kind rows or spans.
void buildRows(KernelOp kernel, const KernelSite &site);
/// Of kind spans, where movesKept().
void buildKeep(KernelOp kernel, const KernelSite &site);
/// True where the kernel that lists the kept tokens moves their rows as well, in calls
/// that select and compact.
bool movesKept(KernelOp kernel, const Shape &shape);
void buildSequence(KernelOp kernel, const KernelSite &site);
void buildGram(KernelOp kernel, const KernelSite &site);
void buildMemberKeys(KernelOp kernel, const KernelSite &site);
void buildNearest(KernelOp kernel, const KernelSite &site);
void buildNorms(KernelOp kernel, const KernelSite &site);
void buildParts(KernelOp kernel, const KernelSite &site);
void buildMerge(KernelOp kernel, const KernelSite &site);
void buildCompact(KernelOp kernel, const KernelSite &site);
/// True for the compaction of rows that merge.
bool merges(KernelOp kernel);
/// True where that is two kernels: rows that merge where they lie are then moved by
/// buildPlace.
bool placesMerged(KernelOp kernel, const Shape &shape);
/// The compaction into a view (Shape::into), or its end.
void buildPlace(KernelOp kernel, const KernelSite &site);

/// The argument of scratch buffer `buffer`.
std::string scratchName(BufferAttr buffer);

/// What kvc.reduce_part makes: [batch][Hkv][splits][d].
Buffer partsBuffer(KernelBuilder &k, llvm::StringRef name);
/// Strides of a stored tensor: [batch][heads][max_tokens], [batch][heads]
/// [window] or [batch][heads], by the axes of `type`.
Buffer scratchBuffer(KernelBuilder &k, llvm::StringRef name, mlir::Type type);

/// Arguments of the buffers that a kernel fills, in the order of its results.
llvm::SmallVector<std::string> outputBuffers(KernelOp kernel);

/// A buffer that blocks of a later kernel add to.
struct ClearedBuffer {
  std::string name;
  mlir::Type type;
};

/// What a kernel sets to 0 before it does anything else: buffers that live from
/// it on, though a later kernel makes what is in them.
llvm::SmallVector<ClearedBuffer> clearedBuffers(KernelOp kernel);
/// Does so for a sequence: the first block along x of each head, or of all.
void clearBuffers(KernelBuilder &k, KernelOp kernel, Expr sequence);

/// The row of the cache that a head keeps as row `row`: argument "indices".
Expr keptAs(KernelBuilder &k, Expr sequence, Expr head, Expr row);

/// Appends an argument unless it is there.
void addArg(std::vector<std::string> &args, llvm::StringRef name);

/// What openSequence reads.
std::vector<std::string> sequenceArgs(const Shape &shape);

/// Adds the keys of members, where the kernel is over these.
void setKeys(LaunchSpec &spec, const KernelSite &site);

/// What every kernel that runs a part of the policy's body is launched with:
/// lengths, budgets, what the body reads, the kernel's operands, results and
/// stored values. Block and grid are the builder's.
LaunchSpec bodyLaunch(KernelOp kernel, const KernelSite &site);

/// Appends what the ops that only this kind of kernel computes read of the
/// engine's: q, k, v, the output projection ..., and the log-sum-exp.
void addOwnArgs(KernelOp kernel, const Shape &shape,
                std::vector<std::string> &args);

/// The row of a stored tensor with these heads at a point.
Expr headIndex(KernelBuilder &k, Axis heads, const Point &point);

/// Where along the tokens a stored tensor with these heads has a point: at its token,
/// or, what is one for all heads, at its true position.
Expr tokenIndex(KernelBuilder &k, const SequenceScalars &s, Axis heads,
                const Point &point);

/// The output projection: [batch][Hq][D][d].
Buffer projectionBuffer(KernelBuilder &k);

/// Reads a kernel operand at a point; nothing if `value` is none.
std::optional<Expr> readInput(KernelBuilder &k, const SequenceScalars &s,
                              const KernelSite &site, mlir::Value value,
                              const Point &point);

/// Shared memory that a block of every supported chip has of its own, and the most that a
/// launch can give it in the place of that (codegen/lower/LaunchMemory.cpp): 100 KiB of an
/// SM of sm_86 and sm_89, of which the system has one.
constexpr int64_t maxSharedBytes = 48 * 1024, maxLaunchBytes = 99 * 1024;

/// The largest power of two, at most `most`, of warps that fit into shared
/// memory with `bytes` each; at least 1.
int64_t warpsThatFit(int64_t bytes, int64_t most);

/// Tokens that one warp of a statistics kernel covers, and of a part that others make.
constexpr int64_t splitTokens = 128;
/// The most that KernelSite::listsAbove may be: of longer sequences a split (RowSplits) is
/// more than 128 tokens.
inline constexpr int64_t longestWithoutLists = 1024 * splitTokens;
/// How many a row of a stored tensor has.
Expr splitCount(KernelBuilder &k);
/// Whether each head's candidates are listed in the call (KernelSite::listsAbove).
Expr hasLists(KernelBuilder &k, const KernelSite &site);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_KERNELS_H
