//===- LaneRows.h - vectors of tokens over the lanes of a warp ------------===//
//
// The channels of a row lie over a power of two of lanes, an access of up to 16
// bytes each; where a row has more accesses than a warp has lanes, a lane has
// several. So a warp reads whole rows, one or more at a time, and what is reduced
// over channels is a few shuffles.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_LANEROWS_H
#define KVC_CODEGEN_KERNELS_LANEROWS_H

#include "codegen/kernels/RowBlock.h"

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

private:
  Expr number(int64_t access) const;
};

/// What lanes make at a token to know values there: the sides of the cache, and
/// reductions over channels, each behind those that it is made from.
struct LaneNeeds {
  llvm::SmallVector<CacheSide, 2> sides;
  /// With the member of the group, -1 where there are no query heads.
  llvm::SmallVector<std::pair<class ReduceOp, int>> reductions;
};

/// What `values` need, of a kernel with `group` query heads a head. What does not lie
/// `inside` is read where it is, and what it is made from is not looked at.
LaneNeeds laneNeeds(KernelOp kernel, int64_t group, mlir::ValueRange values,
                    llvm::function_ref<bool(mlir::Value)> inside);

/// A token of a block's head, its vectors over the lanes of its row. All lanes of the
/// warp make it together and in straight code, whatever tokens they have.
class LaneToken {
public:
  using Values = KernelBuilder::Values;

  LaneToken(const LaneRows &rows, const RowBlock &block, Expr token);

  /// Reads what is needed and makes the reductions. What the block's reader is asked
  /// for meanwhile, find() may know.
  void make(const LaneNeeds &needs);
  /// A vector's values at the lane's channels, access by access.
  Values channels(mlir::Value value, int member) const;
  /// One of the reductions that were made, before its root where it has one: that is a
  /// branch, which would stand between the loads of tokens in flight.
  Expr beforeRoot(ReduceOp op, int member) const {
    return reduced.lookup({op, member});
  }
  /// What is known at a point: elements that were read, reductions that were made.
  std::optional<Expr> find(mlir::Value value, const Point &point) const;

private:
  Expr reduce(ReduceOp op, int member) const;

  const LaneRows &rows;
  const RowBlock &block;
  Point point;
  Values firsts;
  llvm::SmallDenseMap<CacheSide, Values, 2> read; // vectors, by access
  llvm::SmallDenseMap<std::pair<mlir::Operation *, int>, Expr, 4> reduced;
};

/// A reduction from what is known before its root.
Expr withRoot(KernelBuilder &k, ReduceKind kind, Expr before);

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

  /// make(token) with what is needed of it at hand, then use(...), `together` of the
  /// lane's accesses in flight. Behind the last token stands that once more, and does
  /// not exist: lanes stay together.
  Values walk(const RowBlock &tokens, llvm::ArrayRef<Expr> carried,
              const LaneNeeds &needs, int64_t together,
              llvm::function_ref<Values(const LaneToken &)> make, Use use);
  /// What is at hand while a token's values are made; for the tokens' reader.
  std::optional<Expr> find(mlir::Value value, const Point &point) const {
    return current ? current->find(value, point) : std::nullopt;
  }

private:
  std::optional<LaneToken> current;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_LANEROWS_H
