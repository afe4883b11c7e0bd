//===- PointPools.cpp - pools over neighbouring tokens at a point ---------===//
//
// A pool reads the same values as its neighbours, and most tokens have all of these in
// the past: where the values are at hand they are read at once, in straight code, and
// walked one by one at the ends of a row.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PointEval.h"
#include "codegen/kernels/Reductions.h"
#include "dialect/Behind.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// From the first to behind the last one in the past.
std::pair<Expr, Expr> PointEval::neighbours(PoolOp op) {
  int64_t half = constantOf(op.getWidth()) / 2;
  Expr from = point.token - half, to = point.token + (half + 1);
  if (s.neighboursExist)
    return {from, to};
  return {from.max(k.index(0)), to.min(s.past)};
}

/// As many values of a pool as are read at once, and of the pools of a group's members,
/// which follow each other.
static constexpr int64_t mostAtOnce = 16, mostOfGroup = 64;

int64_t kvc::readAtOnce(PoolOp pool, const Shape &shape) {
  int64_t reads = 0;
  bool simple = true;
  walkBehind(pool.getValue(), [&](Value behind) {
    auto type = dyn_cast<RankedTensorType>(behind.getType());
    if (!type || axesOf(type).back() != Axis::Past)
      return false;
    Operation *op = behind.getDefiningOp();
    if (isa_and_nonnull<SelectHeadsOp>(op)) // of a head all tokens or none
      return false;
    if (!op || isa<StoreOp>(op)) {
      ++reads;
      return false;
    }
    bool goesOn = op->hasTrait<OpTrait::Elementwise>() || isa<BroadcastOp>(op);
    simple &= goesOn;
    return goesOn;
  });
  reads *= constantOf(pool.getWidth());
  bool perQuery = headsOf(pool.getType()) == Axis::QueryHeads;
  int64_t ofAll = perQuery ? reads * shape.group : reads;
  return simple && reads <= mostAtOnce && ofAll <= mostOfGroup ? ofAll : 0;
}

/// In ascending order.
Expr PointEval::poolSum(PoolOp op, int member) {
  int64_t width = constantOf(op.getWidth()), half = width / 2;
  auto [from, to] = neighbours(op);
  ReduceKind kind =
      op.getKind() == PoolKind::Mean ? ReduceKind::Sum : ReduceKind::Max;
  Expr start = reductionStart(k, kind);
  Outside around = aroundLoop(Axis::Past);
  auto add = [&](Expr token, Expr acc) {
    Point near = point;
    near.token = token;
    PointEval eval(*this, leaf, near, around);
    return reductionStep(kind, acc, eval(op.getValue(), member));
  };
  auto walk = [&] { return Values{k.fold(from, to, 1, start, add)}; };
  // What is in memory is read all at once, but at the ends of the row.
  auto all = [&] {
    Expr sum = start;
    for (int64_t i = 0; i < width; ++i)
      sum = add(point.token + (i - half), sum);
    return Values{sum};
  };
  if (s.neighboursExist)
    return pooledBehind(op.getResult()).values <= mostAtOnce ? all()[0]
                                                             : walk()[0];
  Expr inside = (point.token >= half) & (point.token + (half + 1) <= s.past);
  return readAtOnce(op, k.shape) ? k.choose(inside, all, walk)[0] : walk()[0];
}

Expr PointEval::poolCount(PoolOp op) {
  if (op.getCountPadding() || s.neighboursExist)
    return k.f32(double(constantOf(op.getWidth())));
  auto [from, to] = neighbours(op);
  return (to - from).toFloat();
}

Expr PointEval::pool(PoolOp op, int member) {
  Expr sum = poolSum(op, member);
  return op.getKind() == PoolKind::Mean ? sum / poolCount(op) : sum;
}
