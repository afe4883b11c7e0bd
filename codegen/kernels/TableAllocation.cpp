//===- TableAllocation.cpp - budgets of a whole model by a table ----------===//

#include "codegen/kernels/TableAllocation.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// An entry below 2^-24 of the largest loses bits.
static constexpr int64_t exponentRange = 24;
static constexpr int64_t quotientBits = 22; // counts are below 2^21

TableAllocation::TableAllocation(KernelBuilder &k, ThreadBlock &block)
    : k(k), block(block) {
  auto halves = [&](int64_t count) {
    return Halves{k.shared(k.b.getI64Type(), count),
                  k.shared(k.b.getI64Type(), count)};
  };
  ofWarps = halves(block.threads / warpSize);
  remainders = halves(together);
  floors = k.shared(k.b.getI32Type(), together);
}

Expr TableAllocation::wide(Expr index) {
  return k.expr(
      arith::IndexCastOp::create(k.b, k.b.getIntegerType(128), index));
}

Expr TableAllocation::extend(Expr value, int64_t bits) {
  return k.expr(arith::ExtUIOp::create(k.b, k.b.getIntegerType(bits), value));
}

Expr TableAllocation::lowest(Expr value, int64_t bits) {
  return k.expr(arith::TruncIOp::create(k.b, k.b.getIntegerType(bits), value));
}

/// Exponent field and mantissa of an entry; 0 for what is no entry.
static std::pair<Expr, Expr> fields(KernelBuilder &k, Expr entry) {
  Expr bits = entry.bits();
  Expr exponent = (bits >> 23) & 255, fraction = bits & ((1 << 23) - 1);
  Expr normal = exponent > 0;
  Expr mantissa = normal.select(fraction | k.i32(1 << 23), fraction);
  Expr good = (bits >= 0) & (exponent < 255);
  return {exponent.max(k.i32(1)), good.select(mantissa, k.i32(0))};
}

Expr TableAllocation::weightOf(Expr head) {
  Buffer table = k.buffer("table", {k.index(k.shape.group)});
  Expr sum = k.zero(k.b.getI64Type());
  for (int64_t j = 0; j < k.shape.group; ++j) {
    auto [exponent, mantissa] = fields(k, k.load(table, {head, k.index(j)}));
    Expr up = exponent - leastExponent, down = leastExponent - exponent;
    auto widen = [&](Expr x) { return extend(x, 64); };
    Expr scaled =
        (up >= 0).select(widen(mantissa) << widen(up.max(k.i32(0))),
                         widen(mantissa >> down.max(k.i32(0)).min(k.i32(31))));
    sum = sum + scaled;
  }
  return extend(sum, 128);
}

void TableAllocation::store(Expr value, const Halves &to, Expr at) {
  k.store(lowest(value, 64), to.low, {at});
  k.store(lowest(value >> 64, 64), to.high, {at});
}

Expr TableAllocation::load(const Halves &from, Expr at) {
  auto part = [&](const Buffer &memory) {
    return extend(k.load(memory, {at}), 128);
  };
  return part(from.low) | (part(from.high) << 64);
}

/// In parts of so many bits that a word has room for the sum of 32 of them.
Expr TableAllocation::warpSum(Expr value) {
  constexpr int64_t bits = 27;
  Expr sum = k.zero(k.b.getIntegerType(128));
  for (int64_t from = 0; from < 128; from += bits) {
    Expr part = lowest(value >> from, 32) & ((1 << bits) - 1);
    sum = sum + (extend(k.sumOfLanes(part), 128) << from);
  }
  return sum;
}

Expr TableAllocation::blockSum(Expr value) {
  Expr ofWarp = warpSum(value);
  k.barrier(); // earlier readers are done
  k.when(k.lane() == 0, [&] { store(ofWarp, ofWarps, k.warp()); });
  k.barrier();
  // In straight code, so that no load waits for another.
  Expr sum = load(ofWarps, k.index(0));
  for (int64_t warp = 1; warp < block.threads / warpSize; ++warp)
    sum = sum + load(ofWarps, k.index(warp));
  return sum;
}

void TableAllocation::allocate(const SequenceScalars &s, Expr base, Expr shared,
                               llvm::function_ref<void(Expr, Expr)> store) {
  Expr zero = k.index(0), thread = k.thread();
  Expr step = k.index(block.threads), perLayer = k.arg("kv_heads");
  Expr count = perLayer * k.arg("layers");
  Expr nothing = k.zero(k.b.getIntegerType(128));
  auto overHeads = [&](llvm::function_ref<Expr(Expr)> value) {
    return blockSum(
        k.fold(thread, count, step, nothing,
               [&](Expr head, Expr acc) { return acc + value(head); }));
  };
  auto flag = [&](Expr bit) { return bit.select(nothing + 1, nothing); };

  // The scale of the weights, and whether every entry is one.
  Buffer table = k.buffer("table", {k.index(k.shape.group)});
  auto scan = k.loop(thread, count, step, {k.i32(1), k.i32(0)},
                     [&](Expr head, ArrayRef<Expr> carried) {
                       Expr most = carried[0], bad = carried[1];
                       for (int64_t j = 0; j < k.shape.group; ++j) {
                         Expr entry = k.load(table, {head, k.index(j)});
                         auto [exponent, mantissa] = fields(k, entry);
                         most = (mantissa > 0).select(most.max(exponent), most);
                         Expr good =
                             (entry >= k.f32(0)) &
                             (entry.bits().same(0x7f800000) > entry.bits());
                         bad = good.select(bad, k.i32(1));
                       }
                       return Values{most, bad};
                     });
  Expr most = block.reduce(ReduceKind::Max, scan[0].toFloat());
  leastExponent = k.expr(arith::FPToSIOp::create(k.b, k.b.getI32Type(), most)) -
                  exponentRange;
  Expr weights = overHeads([&](Expr head) { return weightOf(head); });
  k.when((scan[1] > 0) | (weights == nothing),
         [&] { k.setStatus(KVC_DATA_TABLE); });

  // A head's share is share / weights: base + weight * shared * heads /
  // weights.
  Expr pool = wide(shared * count), capacity = wide(s.past);
  Expr unit = (weights == nothing).select(nothing + 1, weights);
  auto share = [&](Expr head) {
    return wide(base) * unit + weightOf(head) * pool;
  };
  // Shares in proportion to `rest` tokens over `sum`; more than the capacity is
  // cut to it, and the others share what is left. Cutting raises rest / sum, so
  // what was cut once stays cut: nothing need be remembered.
  Expr total = wide((base + shared) * count);
  auto cut = [&](Expr head, Expr rest, Expr sum) {
    return (share(head) * rest).above(capacity * sum);
  };
  Expr sum0 = overHeads(share);
  auto cutOnce = [&](ArrayRef<Expr> carried) {
    Expr rest = carried[0], sum = carried[1], before = carried[2];
    Expr cuts = overHeads([&](Expr h) { return flag(cut(h, rest, sum)); });
    Expr left = overHeads(
        [&](Expr h) { return cut(h, rest, sum).select(nothing, share(h)); });
    return Values{total - capacity * cuts, left, cuts, cuts == before};
  };
  // So many turns at most; who is settled leaves them out, many at a time.
  constexpr int64_t turns = 64;
  auto unlessSettled = [&](ArrayRef<Expr> carried,
                           llvm::function_ref<Values()> body) {
    return k.choose(
        carried[3], [&] { return Values(carried.begin(), carried.end()); },
        body);
  };
  auto settled = k.loop(
      zero, count, turns, {total, sum0, nothing, k.boolean(false)},
      [&](Expr, ArrayRef<Expr> carried) {
        return unlessSettled(carried, [&] {
          return k.loop(
              0, turns, 1, carried, [&](Expr, ArrayRef<Expr> running) {
                return unlessSettled(running, [&] { return cutOnce(running); });
              });
        });
      });
  Expr rest = settled[0], sum = settled[1], cuts = settled[2];
  // All shares that are left are 0: equal ones.
  Expr equal = sum == nothing;
  Expr divisor = equal.select(wide(count) - cuts, sum);
  divisor = (divisor == nothing).select(nothing + 1, divisor);
  auto isCut = [&](Expr head) { return cut(head, rest, sum); };
  // Quotient and remainder, bit by bit: no target divides 128 bits. Quotients are below
  // 2^22, so the bits above these leave no more than the divisor, which is below 2^127.
  auto divide = [&](Expr head) {
    Expr value = equal.select(rest, share(head) * rest);
    Expr low = lowest(value, 32);
    auto result =
        k.loop(0, quotientBits, 1, {k.i32(0), value >> quotientBits},
               [&](Expr i, ArrayRef<Expr> carried) {
                 Expr bit = (low >> (k.i32(quotientBits - 1) - i.toI32())) & 1;
                 Expr above = (carried[1] << 1) | extend(bit, 128);
                 Expr fits = divisor.above(above) == k.boolean(false);
                 Expr quotient = carried[0] << 1;
                 return Values{fits.select(quotient + 1, quotient),
                               fits.select(above - divisor, above)};
               });
    Expr quotient = extend(result[0], 128);
    return std::pair(isCut(head).select(capacity, quotient), result[1]);
  };
  Expr left = total - overHeads([&](Expr head) { return divide(head).first; });
  Expr first = k.arg("layer") * perLayer;
  k.loop(zero, perLayer, together, [&](Expr from) {
    auto own = [&](Expr i) { return (from + i).min(perLayer - 1); };
    k.barrier(); // earlier readers are done
    k.when(thread < together, [&] {
      auto [floor, remainder] = divide(first + own(thread));
      k.store(lowest(floor, 32), floors, {thread});
      this->store(remainder, remainders, thread);
    });
    k.barrier();
    Values mine;
    for (int64_t i = 0; i < together; ++i)
      mine.push_back(load(remainders, k.index(i)));
    // Larger remainders first, then the smaller head, then the smaller layer.
    Values ranks =
        k.loop(thread, count, step, Values(together, k.i32(0)),
               [&](Expr other, ArrayRef<Expr> carried) {
                 Expr theirs = divide(other).second, head = other % perLayer;
                 Expr isEarlier = other / perLayer < k.arg("layer");
                 Expr shares = isCut(other) == k.boolean(false);
                 Values next;
                 for (int64_t i = 0; i < together; ++i) {
                   Expr earlier = (head < own(k.index(i))) |
                                  ((head == own(k.index(i))) & isEarlier);
                   Expr before =
                       theirs.above(mine[i]) | ((theirs == mine[i]) & earlier);
                   next.push_back(carried[i] +
                                  (before & shares).select(k.i32(1), k.i32(0)));
                 }
                 return next;
               });
    for (int64_t i = 0; i < together; ++i) {
      Expr rank = block.sum(ranks[i]);
      k.when(from + i < perLayer, [&] {
        Expr head = from + i;
        Expr extra = (isCut(first + head) == k.boolean(false)) &
                     left.above(wide(rank.toIndex()));
        Expr share =
            k.load(floors, {k.index(i)}) + extra.select(k.i32(1), k.i32(0));
        // More than all heads hold: none has more than its past.
        store(head, share.toIndex().min(s.past).toI32());
      });
    }
  });
}
