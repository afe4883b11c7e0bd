//===- LaneRows.cpp - vectors of tokens over the lanes of a warp ----------===//

#include "codegen/kernels/LaneRows.h"

#include "codegen/kernels/Reductions.h"
#include "dialect/Behind.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

static int64_t accessesOf(const Shape &shape) {
  return shape.headDim / shape.vectorWidth();
}

LaneRows::LaneRows(KernelBuilder &k)
    : k(k), width(k.shape.vectorWidth()),
      lanes(
          std::min<int64_t>(warpSize, llvm::PowerOf2Ceil(accessesOf(k.shape)))),
      accesses(llvm::divideCeil(accessesOf(k.shape), lanes)) {}

Expr LaneRows::number(int64_t access) const {
  return k.lane() % lanes + access * lanes;
}

Expr LaneRows::isOwn(int64_t access) const {
  if ((access + 1) * lanes <= accessesOf(k.shape))
    return {};
  return number(access) < accessesOf(k.shape);
}

Expr LaneRows::first(int64_t access) const {
  Expr mine = number(access);
  if (isOwn(access).valid())
    mine = mine.min(k.index(accessesOf(k.shape) - 1));
  return mine * width;
}

LaneNeeds kvc::laneNeeds(KernelOp kernel, int64_t group, ValueRange values,
                         llvm::function_ref<bool(Value)> inside) {
  llvm::SmallPtrSet<Operation *, 16> behind;
  for (Value value : values)
    walkBehind(value, [&](Value seen) {
      Operation *op = seen.getDefiningOp();
      if (!op || !inside(seen))
        return false;
      behind.insert(op);
      return true;
    });
  LaneNeeds needs;
  for (Operation &op : kernel.getBody().front()) {
    if (!behind.contains(&op))
      continue;
    auto vectors = dyn_cast<VectorsOp>(op);
    if (vectors && !llvm::is_contained(needs.sides, vectors.getSide()))
      needs.sides.push_back(vectors.getSide());
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!reduce || reduce.getAxis() != ReduceAxis::Channels)
      continue;
    if (headsOf(reduce.getType()) != Axis::QueryHeads)
      needs.reductions.push_back({reduce, -1});
    else
      for (int64_t j = 0; j < group; ++j)
        needs.reductions.push_back({reduce, int(j)});
  }
  return needs;
}

LaneToken::LaneToken(const LaneRows &rows, const RowBlock &block, Expr token)
    : rows(rows), block(block), point{block.head, -1, {}, token} {
  for (int64_t access = 0; access < rows.accesses; ++access)
    firsts.push_back(rows.first(access));
}

void LaneToken::make(const LaneNeeds &needs) {
  KernelBuilder &k = rows.k;
  for (CacheSide side : needs.sides) {
    Values &vectors = read[side];
    for (Expr first : firsts)
      vectors.push_back(k.loadVector(
          sideBuffer(k, side),
          {block.s.sequence, point.kvHead, point.token, first}, rows.width));
  }
  for (auto [op, member] : needs.reductions) {
    Expr result = reduce(op, member);
    reduced[{op, member}] = result;
  }
}

Values LaneToken::channels(Value value, int member) const {
  PointEval eval(rows.k, block.s, block.leaf, point);
  Values values;
  for (Expr first : firsts)
    llvm::append_range(values, eval.channels(value, first, rows.width, member));
  return values;
}

std::optional<Expr> LaneToken::find(Value value, const Point &p) const {
  if (!p.kvHead.valid() || Value(p.kvHead) != Value(point.kvHead) ||
      !p.token.valid() || Value(p.token) != Value(point.token))
    return std::nullopt;
  Operation *op = value.getDefiningOp();
  if (auto known = reduced.find({op, p.member}); known != reduced.end())
    return withRoot(rows.k, cast<ReduceOp>(op).getKind(), known->second);
  auto vectors = dyn_cast_if_present<VectorsOp>(op);
  auto side = vectors ? read.find(vectors.getSide()) : read.end();
  if (side == read.end() || !p.access.valid())
    return std::nullopt;
  for (auto [first, vector] : llvm::zip(firsts, side->second))
    if (Value(first) == Value(p.access))
      return rows.k.element(vector, p.element).widen();
  return std::nullopt;
}

Expr kvc::withRoot(KernelBuilder &k, ReduceKind kind, Expr before) {
  return kind == ReduceKind::Std ? k.sqrt(before) : before;
}

/// The lane's channels in ascending order, then lanes in a tree.
Expr LaneToken::reduce(ReduceOp op, int member) const {
  KernelBuilder &k = rows.k;
  Values mine = channels(op.getValue(), member);
  auto walk = [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> value) {
    Expr acc = reductionStart(k, kind);
    for (int64_t access = 0; access < rows.accesses; ++access) {
      Expr next = acc, own = rows.isOwn(access);
      for (int64_t e = 0; e < rows.width; ++e)
        next = reductionStep(kind, next, value(mine[access * rows.width + e]));
      acc = own.valid() ? own.select(next, acc) : next;
    }
    for (int64_t mask = rows.lanes / 2; mask; mask /= 2)
      acc = reductionStep(kind, acc, k.shuffleXor(acc, mask));
    return acc;
  };
  Expr count = k.f32(k.shape.headDim);
  return op.getKind() == ReduceKind::Std
             ? varianceOfAll(k, count, walk)
             : reduceAll(k, op.getKind(), count, walk);
}

Values LaneWalk::walk(const RowBlock &tokens, ArrayRef<Expr> carried,
                      const LaneNeeds &needs, int64_t together,
                      llvm::function_ref<Values(const LaneToken &)> make,
                      Use use) {
  KernelBuilder &k = rows.k;
  auto makeAt = [&](Expr token) {
    current.emplace(rows, tokens, token);
    current->make(needs);
    Values made = make(*current);
    current.reset();
    return made;
  };
  // Where the warp has a token for each of its rows, none needs to be looked at.
  int64_t atOnce = rows.perWarp(), step = warps * atOnce;
  Expr from = tokens.begin + k.warp() * atOnce, row = rows.row();
  Expr whole = tokens.end - (atOnce - 1);
  Values values = k.stream(
      from, whole, step, carried, [&](Expr base) { return makeAt(base + row); },
      [&](Expr base, ArrayRef<Expr> made, ArrayRef<Expr> before) {
        return use(base + row, k.boolean(true), made, before);
      },
      std::max<int64_t>(together / rows.accesses, 1));
  if (atOnce == 1)
    return values;
  Expr steps = (whole - from + (step - 1)).max(k.index(0)) / step;
  return k.loop(from + steps * step, tokens.end, step, values,
                [&](Expr base, ArrayRef<Expr> before) {
                  Expr token = (base + row).min(tokens.end - 1);
                  return use(token, base + row < tokens.end, makeAt(token),
                             before);
                });
}
