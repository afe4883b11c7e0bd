//===- LaneWalk.cpp - warps walk vectors of tokens ------------------------===//

#include "codegen/kernels/LaneRows.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

Values LaneWalk::walk(const LaneHead &head, Expr begin, Expr end,
                      ArrayRef<Expr> carried, const LaneNeeds &needs,
                      int64_t together,
                      llvm::function_ref<Values(const LaneToken &)> make,
                      Use use) {
  KernelBuilder &k = rows.k;
  // Roots and divisions branch: loads of tokens in flight stand in front of them.
  auto loadAt = [&](Expr token) {
    return LaneToken(rows, head, token).load(needs);
  };
  auto makeAt = [&](Expr token, ArrayRef<Expr> vectors) {
    current.emplace(rows, head, token);
    current->make(needs, vectors);
    Values made = make(*current);
    current.reset();
    return made;
  };
  // Where the warp has a token for each of its rows, none needs to be looked at.
  int64_t atOnce = rows.perWarp(), step = warps * atOnce;
  Expr from = begin + k.warp() * atOnce, row = rows.row();
  Expr whole = end - (atOnce - 1);
  Values values = k.stream(
      from, whole, step, carried, [&](Expr base) { return loadAt(base + row); },
      [&](Expr base, ArrayRef<Expr> vectors, ArrayRef<Expr> before) {
        Expr token = base + row;
        return use(token, k.boolean(true), makeAt(token, vectors), before);
      },
      std::max<int64_t>(together / rows.accesses, 1));
  if (atOnce == 1)
    return values;
  Expr steps = (whole - from + (step - 1)).max(k.index(0)) / step;
  return k.loop(from + steps * step, end, step, values,
                [&](Expr base, ArrayRef<Expr> before) {
                  Expr token = (base + row).min(end - 1);
                  Values made = makeAt(token, loadAt(token));
                  return use(token, base + row < end, made, before);
                });
}

void LaneWalk::reduceVectors(const LaneHead &head, Expr begin, Expr end,
                             ArrayRef<ReduceKind> kinds, const LaneNeeds &needs,
                             int64_t together, const Buffer &parts,
                             llvm::function_ref<Values(const LaneToken &)> of) {
  KernelBuilder &k = rows.k;
  int64_t mine = rows.accesses * rows.width;
  Values start;
  for (ReduceKind kind : kinds)
    start.append(mine, reductionStart(k, kind));
  Values sums = walk(
      head, begin, end, start, needs, together, of,
      [&](Expr, Expr exists, ArrayRef<Expr> made, ArrayRef<Expr> before) {
        Values next;
        for (auto [n, kind] : llvm::enumerate(kinds))
          for (int64_t i = 0; i < mine; ++i) {
            Expr sum = before[n * mine + i];
            Expr more = reductionStep(kind, sum, made[i]);
            // The last token once more changes a sum alone.
            bool once = ReduceKind::Max != kind && ReduceKind::Min != kind &&
                        rows.perWarp() > 1;
            next.push_back(once ? exists.select(more, sum) : more);
          }
        return next;
      });
  combineWarps(kinds, sums, parts);
}

void LaneWalk::combineWarps(ArrayRef<ReduceKind> kinds, ArrayRef<Expr> sums,
                            const Buffer &parts) {
  KernelBuilder &k = rows.k;
  int64_t mine = rows.accesses * rows.width;
  Values whole;
  for (auto [n, kind] : llvm::enumerate(kinds))
    for (int64_t i = 0; i < mine; ++i) {
      Expr sum = sums[n * mine + i];
      for (int64_t mask = rows.lanes; mask < warpSize; mask *= 2)
        sum = reductionStep(kind, sum, k.shuffleXor(sum, mask));
      whole.push_back(sum);
    }
  k.barrier(); // earlier ones have been read
  for (int64_t access = 0; access < rows.accesses; ++access) {
    Expr own = rows.isOwn(access), first = rows.row() == 0;
    k.when(own.valid() ? own & first : first, [&] {
      for (size_t n = 0; n < kinds.size(); ++n)
        for (int64_t e = 0; e < rows.width; ++e)
          k.store(whole[n * mine + access * rows.width + e], parts,
                  {k.index(int64_t(n)), k.warp(), rows.first(access) + e});
    });
  }
  k.barrier();
}

Expr LaneWalk::ofWarps(ReduceKind kind, const Buffer &parts, int64_t number,
                       Expr channel) {
  KernelBuilder &k = rows.k;
  Expr result = reductionStart(k, kind);
  for (int64_t warp = 0; warp < warps; ++warp)
    result = reductionStep(
        kind, result,
        k.load(parts, {k.index(number), k.index(warp), channel}));
  return result;
}

Values LaneWalk::ofLanes(const LaneHead &head,
                         llvm::function_ref<Expr(Expr)> tokenOf,
                         const LaneNeeds &needs, int64_t together) {
  KernelBuilder &k = rows.k;
  // Lanes of a row take its tokens in turn, so each finds its own in its own row.
  Expr first = rows.row() * rows.lanes, own = k.lane() % rows.lanes;
  return k.stream(
      k.index(0), k.index(rows.lanes), 1,
      Values(needs.reductions.size(), k.f32(0)),
      [&](Expr step) {
        return LaneToken(rows, head, tokenOf(first + step)).load(needs);
      },
      [&](Expr step, ArrayRef<Expr> vectors, ArrayRef<Expr> before) {
        current.emplace(rows, head, tokenOf(first + step));
        current->make(needs, vectors);
        Values next;
        for (auto [reduction, old] : llvm::zip(needs.reductions, before)) {
          auto [op, member] = reduction;
          next.push_back(
              (own == step).select(current->beforeRoot(op, member), old));
        }
        current.reset();
        return next;
      },
      std::max<int64_t>(together / rows.accesses, 1));
}
