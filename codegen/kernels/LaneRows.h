//===- LaneRows.h - vectors of tokens over the lanes of a warp ------------===//
//
// The channels of a row lie over a power of two of lanes, an access of up to 16
// bytes each; where a row has more accesses than a warp has lanes, a lane has
// several. So a warp reads whole rows, one or more at a time; what is reduced over
// channels is a few shuffles, what is reduced over tokens stays in registers.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_LANEROWS_H
#define KVC_CODEGEN_KERNELS_LANEROWS_H

#include "codegen/kernels/PointEval.h"

namespace kvc {

/// How a row lies over lanes.
class LaneRows {
public:
  explicit LaneRows(KernelBuilder &k);

  KernelBuilder &k;
  const int64_t width;    // channels of an access
  const int64_t lanes;    // of a row
  const int64_t accesses; // of a lane
  /// Rows that a warp has at a time.
  int64_t perWarp() const { return warpSize / lanes; }
  /// Which of these the lane belongs to.
  Expr row() const { return k.lane() / lanes; }
  /// The first channel of one of the lane's accesses. A lane that is left over has
  /// the last channels once more, and isOwn says so.
  Expr first(int64_t access) const;
  /// Not valid where every lane has channels of its own.
  Expr isOwn(int64_t access) const;
  /// Memory of the block for `count` rows of f32, [number][row][channel], `rows` of a
  /// number, without conflicts of its banks: neither where lanes have their accesses,
  /// 16 bytes at a time, nor where threads have channels side by side.
  Buffer shared(int64_t count, int64_t rows) const;

private:
  Expr number(int64_t access) const;
};

/// What lanes make at a token to know values there: the sides of the cache, and
/// reductions over channels and norms, each behind those that it is made from.
struct LaneNeeds {
  llvm::SmallVector<CacheSide, 2> sides;
  /// With the member of the group, -1 where there are no query heads.
  llvm::SmallVector<std::pair<mlir::Operation *, int>> reductions;
};

/// What `values` need, of a kernel with `group` query heads a head. What does not lie
/// `inside` is read where it is, and what it is made from is not looked at.
LaneNeeds laneNeeds(KernelOp kernel, int64_t group, mlir::ValueRange values,
                    llvm::function_ref<bool(mlir::Value)> inside);

/// Whose tokens lanes have, and who reads what is in memory.
struct LaneHead {
  const SequenceScalars &s;
  Expr head;
  const LeafReader &leaf;
};

/// A token of a head, its vectors over the lanes of its row. All lanes of the warp make
/// it together and in straight code, whatever tokens they have.
class LaneToken {
public:
  using Values = KernelBuilder::Values;

  LaneToken(const LaneRows &rows, const LaneHead &head, Expr token);

  /// Reads the vectors that are needed: side by side, access by access.
  Values load(const LaneNeeds &needs) const;
  /// Takes them, and makes the reductions. What the head's reader is asked for
  /// meanwhile, find() may know.
  void make(const LaneNeeds &needs, llvm::ArrayRef<Expr> vectors);
  /// What the lane has of a reduction over channels; those of a row's lanes make it.
  Expr partOf(mlir::Operation *op, int member) const;
  /// A vector's values at the lane's channels, access by access.
  Values channels(mlir::Value value, int member) const;
  /// One of the reductions that were made, before its root where it has one: all lanes
  /// of a row would take the same.
  Expr beforeRoot(mlir::Operation *op, int member) const {
    return reduced.lookup({op, member});
  }
  /// What is known at a point: elements that were read, reductions that were made.
  std::optional<Expr> find(mlir::Value value, const Point &point) const;

private:
  using Step = llvm::function_ref<Expr(Expr sum, Expr value)>;
  Expr reduce(mlir::Operation *op, int member) const;
  Expr inLane(ReduceKind kind, llvm::ArrayRef<Expr> mine, Step step) const;
  Expr overLanes(ReduceKind kind, llvm::ArrayRef<Expr> mine, Step step) const;

  const LaneRows &rows;
  const LaneHead head;
  Point point;
  Values firsts;
  llvm::SmallDenseMap<CacheSide, Values, 2> read; // vectors, by access
  llvm::SmallDenseMap<std::pair<mlir::Operation *, int>, Expr, 4> reduced;
};

/// How a reduction over channels, or a norm before its root, adds them up.
ReduceKind kindOverChannels(mlir::Operation *op);
/// What parts of all lanes make, before its root.
Expr endOverChannels(KernelBuilder &k, mlir::Operation *op, Expr sum);

/// A reduction or a norm from what is known before its root.
Expr withRoot(KernelBuilder &k, mlir::Operation *op, Expr before);

/// Walks a block's tokens, as many at a time as its warps have rows.
class LaneWalk {
public:
  using Values = KernelBuilder::Values;
  using Use = llvm::function_ref<Values(Expr token, Expr exists,
                                        llvm::ArrayRef<Expr> made,
                                        llvm::ArrayRef<Expr> carried)>;

  LaneWalk(KernelBuilder &k, int64_t threads)
      : rows(k), warps(threads / warpSize) {}

  const LaneRows rows;
  const int64_t warps;

  /// Over [begin, end): make(token) with what is needed of it at hand, then use(...),
  /// `together` of the lane's accesses in flight. Behind the last token stands that once
  /// more, and does not exist: lanes stay together.
  Values walk(const LaneHead &head, Expr begin, Expr end,
              llvm::ArrayRef<Expr> carried, const LaneNeeds &needs,
              int64_t together,
              llvm::function_ref<Values(const LaneToken &)> make, Use use);
  /// Vectors reduced over [begin, end), by `kinds` one after the other: what of(token)
  /// has at the lane's channels. Puts what each warp has into `parts`,
  /// [kind][warp][channel], for the whole block; two barriers.
  void reduceVectors(const LaneHead &head, Expr begin, Expr end,
                     llvm::ArrayRef<ReduceKind> kinds, const LaneNeeds &needs,
                     int64_t together, const Buffer &parts,
                     llvm::function_ref<Values(const LaneToken &)> of);
  /// A channel of that, warps in ascending order.
  Expr ofWarps(ReduceKind kind, const Buffer &parts, int64_t number,
               Expr channel);
  /// A token for each lane of the warp, tokenOf(lane): what is needed of it, before
  /// its root, in the order of the needs. Rows are read whole, `together` accesses of
  /// a lane in flight; no barrier.
  Values ofLanes(const LaneHead &head, llvm::function_ref<Expr(Expr)> tokenOf,
                 const LaneNeeds &needs, int64_t together);
  /// What is at hand while a token's values are made; for the tokens' reader.
  std::optional<Expr> find(mlir::Value value, const Point &point) const {
    return current ? current->find(value, point) : std::nullopt;
  }

private:
  Values takeTurns(const LaneHead &head, llvm::function_ref<Expr(Expr)> tokenOf,
                   const LaneNeeds &needs, int64_t together);
  Values exchange(const LaneHead &head, llvm::function_ref<Expr(Expr)> tokenOf,
                  const LaneNeeds &needs);
  Expr toOwnLanes(ReduceKind kind, Values parts) const;
  void combineWarps(llvm::ArrayRef<ReduceKind> kinds, llvm::ArrayRef<Expr> sums,
                    const Buffer &parts);

  std::optional<LaneToken> current;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_LANEROWS_H
