//===- LaneWalk.cpp - warps walk vectors of tokens ------------------------===//

#include "codegen/kernels/LaneRows.h"

#include "codegen/kernels/Reductions.h"
#include "dialect/Behind.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// True where none is made from another, and each is the sum of its parts.
static bool areApart(ArrayRef<std::pair<Operation *, int>> reductions) {
  auto isOne = [&](Operation *op) {
    return llvm::any_of(reductions,
                        [&](const auto &one) { return one.first == op; });
  };
  return llvm::none_of(reductions, [&](const auto &one) {
    bool reads = kindOverChannels(one.first) == ReduceKind::Std;
    for (Value operand : one.first->getOperands())
      walkBehind(operand, [&](Value behind) {
        reads |= behind.getDefiningOp() && isOne(behind.getDefiningOp());
        return true;
      });
    return reads;
  });
}

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
  Values sums =
      walk(head, begin, end, start, needs, together, of,
           [&](Expr, Expr exists, ArrayRef<Expr> made, ArrayRef<Expr> before) {
             Values next;
             for (auto [n, kind] : llvm::enumerate(kinds))
               for (int64_t i = 0; i < mine; ++i) {
                 Expr sum = before[n * mine + i];
                 Expr more = reductionStep(kind, sum, made[i]);
                 // The last token once more changes a sum alone.
                 bool once = ReduceKind::Max != kind &&
                             ReduceKind::Min != kind && rows.perWarp() > 1;
                 next.push_back(once ? exists.select(more, sum) : more);
               }
             return next;
           });
  combineWarps(kinds, sums, parts);
}

void LaneWalk::combineWarps(ArrayRef<ReduceKind> kinds, ArrayRef<Expr> sums,
                            const Buffer &parts) {
  KernelBuilder &k = rows.k;
  int64_t mine = rows.accesses * rows.width, half = rows.width / 2;
  // Lanes that are the farthest apart have the same channels, and store half of them
  // each: of every second four lanes the other half, or eight lanes that store 16
  // bytes together would find four banks twice.
  bool halves = rows.perWarp() > 1 && half == 4 && rows.accesses == 1;
  Expr upper = (k.lane() / (warpSize / 2) ^ k.lane() / half % 2) == 1;
  int64_t whole = halves ? warpSize / 2 : warpSize;
  Values stored;
  for (auto [n, kind] : llvm::enumerate(kinds)) {
    Values own;
    for (int64_t i = 0; i < mine; ++i)
      own.push_back(
          reduceLanesFrom(k, kind, sums[n * mine + i], rows.lanes, whole));
    for (int64_t i = 0; halves && i < half; ++i) {
      Expr low = own[i], high = own[i + half];
      Expr theirs = k.shuffleXor(upper.select(low, high), warpSize / 2);
      own[i] = reductionStep(kind, upper.select(high, low), theirs);
    }
    stored.append(own.begin(), own.begin() + (halves ? half : mine));
  }
  k.barrier(); // earlier ones have been read
  auto store = [&](int64_t access, Expr first, int64_t width) {
    for (size_t n = 0; n < kinds.size(); ++n)
      for (int64_t e = 0; e < width; ++e)
        k.store(stored[n * stored.size() / kinds.size() + access * width + e],
                parts, {k.index(int64_t(n)), k.warp(), first + e});
  };
  if (halves)
    // Further lanes have the same, too.
    store(0, rows.first(0) + upper.select(k.index(half), k.index(0)), half);
  else
    for (int64_t access = 0; access < rows.accesses; ++access) {
      Expr own = rows.isOwn(access), first = rows.row() == 0;
      k.when(own.valid() ? own & first : first,
             [&] { store(access, rows.first(access), rows.width); });
    }
  k.barrier();
}

Expr LaneWalk::ofWarps(ReduceKind kind, const Buffer &parts, int64_t number,
                       Expr channel) {
  KernelBuilder &k = rows.k;
  Expr result = reductionStart(k, kind);
  for (int64_t warp = 0; warp < warps; ++warp)
    result = reductionStep(
        kind, result, k.load(parts, {k.index(number), k.index(warp), channel}));
  return result;
}

Values LaneWalk::ofLanes(const LaneHead &head,
                         llvm::function_ref<Expr(Expr)> tokenOf,
                         const LaneNeeds &needs, int64_t together) {
  int64_t reads = rows.accesses * int64_t(needs.sides.size());
  if (rows.lanes == 1 || reads * rows.lanes > together ||
      !areApart(needs.reductions))
    return takeTurns(head, tokenOf, needs, together / 2);
  return rows.k.eitherForm([&] { return takeTurns(head, tokenOf, needs, 1); },
                           [&] { return exchange(head, tokenOf, needs); });
}

/// Lanes of a row take its tokens in turn, so each finds its own in its own row.
Values LaneWalk::takeTurns(const LaneHead &head,
                           llvm::function_ref<Expr(Expr)> tokenOf,
                           const LaneNeeds &needs, int64_t together) {
  KernelBuilder &k = rows.k;
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

/// All tokens of a row at once. No lane needs what is made of another's token, so at each
/// level of the tree a lane passes on half of what it has, and keeps the rest: one shuffle
/// for each token, where each lane would otherwise have the whole tree of each.
Values LaneWalk::exchange(const LaneHead &head,
                          llvm::function_ref<Expr(Expr)> tokenOf,
                          const LaneNeeds &needs) {
  KernelBuilder &k = rows.k;
  Expr first = rows.row() * rows.lanes;
  SmallVector<Values> vectors, parts(needs.reductions.size());
  for (int64_t step = 0; step < rows.lanes; ++step)
    vectors.push_back(LaneToken(rows, head, tokenOf(first + step)).load(needs));
  for (int64_t step = 0; step < rows.lanes; ++step) {
    current.emplace(rows, head, tokenOf(first + step));
    current->make(LaneNeeds{needs.sides, {}}, vectors[step]);
    for (auto [reduction, mine] : llvm::zip(needs.reductions, parts))
      mine.push_back(current->partOf(reduction.first, reduction.second));
    current.reset();
  }
  Values made;
  for (auto [reduction, mine] : llvm::zip(needs.reductions, parts)) {
    Operation *op = reduction.first;
    made.push_back(
        endOverChannels(k, op, toOwnLanes(kindOverChannels(op), mine)));
  }
  return made;
}

/// The same tree as over the lanes of one token.
Expr LaneWalk::toOwnLanes(ReduceKind kind, Values parts) const {
  KernelBuilder &k = rows.k;
  for (int64_t half = rows.lanes / 2; half; half /= 2) {
    Expr upper = (k.lane() & half) > 0;
    Values kept;
    for (int64_t i = 0; i < half; ++i) {
      Expr low = parts[i], high = parts[i + half];
      Expr theirs = k.shuffleXor(upper.select(low, high), half);
      kept.push_back(reductionStep(kind, upper.select(high, low), theirs));
    }
    parts = kept;
  }
  return parts.front();
}
