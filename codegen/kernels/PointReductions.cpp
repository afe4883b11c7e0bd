//===- PointReductions.cpp - reductions and vectors at a point ------------===//

#include "codegen/kernels/PointEval.h"
#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// Over the group: the members in ascending order. Over all heads: KV head by
/// KV head, reading stored values.
Expr PointEval::reduceHeads(ReduceOp reduce) {
  bool perQueryHead = headsOf(reduce.getValue().getType()) == Axis::QueryHeads;
  int64_t members = perQueryHead ? k.shape.group : 1;
  auto overMembers = [&](PointEval &eval, Expr sum) {
    for (int64_t j = 0; j < members; ++j)
      sum = reductionStep(reduce.getKind(), sum, eval(reduce.getValue(), j));
    return sum;
  };
  Expr start = reductionStart(k, reduce.getKind());
  Expr sum, count = k.f32(members);
  if (reduce.getAxis() == ReduceAxis::Group) {
    sum = overMembers(*this, start);
  } else {
    Expr heads = headsOf(reduce.getValue().getType()) == Axis::OneHead
                     ? k.index(1)
                     : k.arg("kv_heads");
    Outside around = aroundLoop(Axis::KVHeads);
    sum = k.fold(0, heads, 1, start, [&](Expr head, Expr acc) {
      Point other = point;
      // What is one for all heads is known by the position, which stays.
      if (!k.shape.hasRows())
        other.kvHead = head;
      PointEval eval(*this, leaf, other, around);
      return overMembers(eval, acc);
    });
    count = count * heads.toFloat();
  }
  return reductionEnd(reduce.getKind(), sum, count);
}

/// The members of a row in ascending order, which a walk over all of the head's finds:
/// lanes of neighbouring rows read the same ones.
Expr PointEval::reduceMembers(ReduceOp reduce) {
  MemberTable table(k, s.sequence, point.kvHead);
  ReduceKind kind = reduce.getKind();
  Outside around = aroundLoop(Axis::Member);
  Values sums = k.loop(
      0, table.count(), 1, {reductionStart(k, kind), k.i32(0)},
      [&](Expr entry, ArrayRef<Expr> carried) {
        Point at = point;
        at.token = entry;
        PointEval eval(*this, leaf, at, around);
        Expr next = reductionStep(kind, carried[0], eval(reduce.getValue()));
        Expr own = table.row(entry) == point.token;
        return Values{own.select(next, carried[0]), carried[1] + own.toI32()};
      });
  return reductionEnd(kind, sums[0], sums[1].toFloat());
}

Values PointEval::channels(Value value, Expr first, int64_t width, int member) {
  return channels(value, first, width, member, aroundLoop(Axis::Channel));
}

Values PointEval::channels(Value value, Expr first, int64_t width, int member,
                           Outside around) {
  llvm::SmallDenseMap<CacheSide, Expr, 2> loads;
  Values values;
  for (int64_t e = 0; e < width; ++e) {
    Point at = point;
    at.channel = first + e;
    at.access = first;
    at.element = e;
    LeafReader reader = [&](Value value, const Point &p) {
      std::optional<Expr> known = leaf(value, p);
      auto vectors = value.getDefiningOp<VectorsOp>();
      // A reduction over channels in this one asks for channels of its own.
      if (known || !vectors || Value(p.token) != Value(point.token) ||
          Value(p.kvHead) != Value(point.kvHead) ||
          Value(p.channel) != Value(at.channel))
        return known;
      Expr &loaded = loads[vectors.getSide()];
      if (!loaded.valid())
        loaded = k.loadVector(sideBuffer(k, vectors.getSide()),
                              {s.sequence, p.kvHead, p.token, first}, width);
      return std::optional(k.element(loaded, e).widen());
    };
    PointEval eval(*this, reader, at, around);
    values.push_back(eval(value, member));
  }
  return values;
}

/// The channels in ascending order, by one thread.
Expr PointEval::reduceChannels(ReduceOp reduce, int member) {
  int64_t d = k.shape.headDim;
  int64_t width = k.shape.vectorWidth();
  Outside around = aroundLoop(Axis::Channel);
  auto walk = [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> value) {
    auto step = [&](Expr first, Expr acc) {
      for (Expr x : channels(reduce.getValue(), first, width, member, around))
        acc = reductionStep(kind, acc, value(x));
      return acc;
    };
    return k.fold(0, d, width, reductionStart(k, kind), step);
  };
  return reduceAll(k, reduce.getKind(), k.f32(d), walk);
}

/// One thread walks the row, a vector at a time.
Expr PointEval::norm(NormOp op) {
  Buffer rows = sideBuffer(k, op.getSide());
  bool l2 = op.getKind() == NormKind::L2;
  int64_t width = k.shape.vectorWidth();
  Expr sum =
      k.fold(0, k.shape.headDim, width, k.f32(0), [&](Expr dim, Expr acc) {
        Expr loaded = k.loadVector(
            rows, {s.sequence, point.kvHead, point.token, dim}, width);
        Expr total = acc;
        for (int64_t e = 0; e < width; ++e) {
          Expr x = k.element(loaded, e).widen();
          total =
              l2 ? x.multiplyAdd(x, total) : total + x.unary<math::AbsFOp>();
        }
        return total;
      });
  return l2 ? k.sqrt(sum) : sum;
}
