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

/// Where an access has eight channels, eight lanes would find four banks twice. So of
/// every second 32 channels the fours have changed places.
Buffer LaneRows::shared(int64_t count, int64_t rows) const {
  constexpr int64_t four = 4;
  int64_t d = k.shape.headDim;
  Buffer memory =
      k.shared(k.b.getF32Type(), count * d, {k.index(rows * d), k.index(d)});
  if (width == 2 * four)
    memory.place = [=](ArrayRef<Expr> at) {
      Expr fours = at[2] / four ^ at[2] / warpSize % 2;
      return at[0] * (rows * d) + at[1] * d + fours * four + at[2] % four;
    };
  return memory;
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
    auto reads = [&](CacheSide side) {
      if (!llvm::is_contained(needs.sides, side))
        needs.sides.push_back(side);
    };
    if (auto vectors = dyn_cast<VectorsOp>(op))
      reads(vectors.getSide());
    if (auto norm = dyn_cast<NormOp>(op)) {
      reads(norm.getSide());
      needs.reductions.push_back({norm, -1});
    }
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

LaneToken::LaneToken(const LaneRows &rows, const LaneHead &head, Expr token)
    : rows(rows), head(head), point{head.head, -1, {}, token} {
  for (int64_t access = 0; access < rows.accesses; ++access)
    firsts.push_back(rows.first(access));
}

Values LaneToken::load(const LaneNeeds &needs) const {
  KernelBuilder &k = rows.k;
  Values vectors;
  for (CacheSide side : needs.sides)
    for (Expr first : firsts)
      vectors.push_back(k.loadVector(
          sideBuffer(k, side),
          {head.s.sequence, point.kvHead, point.token, first}, rows.width));
  return vectors;
}

void LaneToken::make(const LaneNeeds &needs, ArrayRef<Expr> vectors) {
  for (auto [i, side] : llvm::enumerate(needs.sides))
    read[side] = Values(vectors.slice(i * firsts.size(), firsts.size()));
  for (auto [op, member] : needs.reductions) {
    Expr result = reduce(op, member);
    reduced[{op, member}] = result;
  }
}

Values LaneToken::channels(Value value, int member) const {
  PointEval eval(rows.k, head.s, head.leaf, point);
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
    return withRoot(rows.k, op, known->second);
  auto vectors = dyn_cast_if_present<VectorsOp>(op);
  auto side = vectors ? read.find(vectors.getSide()) : read.end();
  if (side == read.end() || !p.access.valid())
    return std::nullopt;
  for (auto [first, vector] : llvm::zip(firsts, side->second))
    if (Value(first) == Value(p.access))
      return rows.k.element(vector, p.element).widen();
  return std::nullopt;
}

Expr kvc::withRoot(KernelBuilder &k, Operation *op, Expr before) {
  auto norm = dyn_cast<NormOp>(op);
  bool root = norm ? norm.getKind() == NormKind::L2
                   : cast<ReduceOp>(op).getKind() == ReduceKind::Std;
  return root ? k.sqrt(before) : before;
}

/// The lane's channels in ascending order.
Expr LaneToken::inLane(ReduceKind kind, ArrayRef<Expr> mine, Step step) const {
  Expr acc = reductionStart(rows.k, kind);
  for (int64_t access = 0; access < rows.accesses; ++access) {
    Expr next = acc, own = rows.isOwn(access);
    for (int64_t e = 0; e < rows.width; ++e)
      next = step(next, mine[access * rows.width + e]);
    acc = own.valid() ? own.select(next, acc) : next;
  }
  return acc;
}

/// Then lanes in a tree.
Expr LaneToken::overLanes(ReduceKind kind, ArrayRef<Expr> mine,
                          Step step) const {
  return reduceLanes(rows.k, kind, inLane(kind, mine, step), rows.lanes);
}

ReduceKind kvc::kindOverChannels(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce ? reduce.getKind() : ReduceKind::Sum;
}

Expr kvc::endOverChannels(KernelBuilder &k, Operation *op, Expr sum) {
  return reductionEnd(kindOverChannels(op), sum, k.f32(k.shape.headDim));
}

Expr LaneToken::partOf(Operation *op, int member) const {
  KernelBuilder &k = rows.k;
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    ReduceKind kind = reduce.getKind();
    return inLane(
        kind, channels(reduce.getValue(), member),
        [&](Expr sum, Expr x) { return reductionStep(kind, sum, x); });
  }
  auto norm = cast<NormOp>(op);
  Values mine;
  for (Expr vector : read.lookup(norm.getSide()))
    for (int64_t e = 0; e < rows.width; ++e)
      mine.push_back(k.element(vector, e).widen());
  bool l2 = norm.getKind() == NormKind::L2;
  return inLane(ReduceKind::Sum, mine, [&](Expr sum, Expr x) {
    return l2 ? x.multiplyAdd(x, sum) : sum + x.unary<math::AbsFOp>();
  });
}

Expr LaneToken::reduce(Operation *op, int member) const {
  KernelBuilder &k = rows.k;
  ReduceKind kind = kindOverChannels(op);
  if (kind == ReduceKind::Std) {
    Values mine = channels(cast<ReduceOp>(op).getValue(), member);
    return varianceOfAll(
        k, k.f32(k.shape.headDim),
        [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> value) {
          return overLanes(kind, mine, [&](Expr sum, Expr x) {
            return reductionStep(kind, sum, value(x));
          });
        });
  }
  Expr all = reduceLanes(k, kind, partOf(op, member), rows.lanes);
  return endOverChannels(k, op, all);
}
