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
  ofThreads = halves(block.threads);
  ofGroups = halves(groups);
}

Expr TableAllocation::wide(Expr index) {
  return k.expr(
      arith::IndexCastOp::create(k.b, k.b.getIntegerType(128), index));
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
    auto widen = [&](Expr x) {
      return k.expr(arith::ExtUIOp::create(k.b, k.b.getI64Type(), x));
    };
    Expr scaled =
        (up >= 0).select(widen(mantissa) << widen(up.max(k.i32(0))),
                         widen(mantissa >> down.max(k.i32(0)).min(k.i32(31))));
    sum = sum + scaled;
  }
  return k.expr(arith::ExtUIOp::create(k.b, k.b.getIntegerType(128), sum));
}

void TableAllocation::store(Expr value, const Halves &to, Expr at) {
  Type i64 = k.b.getI64Type();
  k.store(k.expr(arith::TruncIOp::create(k.b, i64, value)), to.low, {at});
  k.store(k.expr(arith::TruncIOp::create(k.b, i64, value >> 64)), to.high,
          {at});
}

Expr TableAllocation::sum(const Halves &of, Expr from, Expr end, int64_t step) {
  Type i128 = k.b.getIntegerType(128);
  return k.loop(
      from, end, k.index(step), {k.zero(i128)},
      [&](Expr i, ArrayRef<Expr> sum) {
        auto part = [&](const Buffer &memory) {
          return k.expr(arith::ExtUIOp::create(k.b, i128, k.load(memory, {i})));
        };
        return Values{sum[0] + (part(of.low) | (part(of.high) << 64))};
      })[0];
}

/// A few threads have the sums of as many groups, which everybody adds up: one after the
/// other, 512 numbers of 128 bits take 8 us.
Expr TableAllocation::blockSum(Expr value) {
  Expr thread = k.thread();
  k.barrier(); // earlier readers are done
  store(value, ofThreads, thread);
  k.barrier();
  k.when(thread < groups, [&] {
    store(sum(ofThreads, thread, k.index(block.threads), groups), ofGroups,
          thread);
  });
  k.barrier();
  return sum(ofGroups, k.index(0), k.index(groups), 1);
}

void TableAllocation::allocate(const SequenceScalars &s, Expr base, Expr shared,
                               llvm::function_ref<void(Expr, Expr)> store) {
  Expr zero = k.index(0), one = k.index(1), thread = k.thread();
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
  auto settled = k.loop(
      zero, count, one, {total, sum0, nothing, k.boolean(false)},
      [&](Expr, ArrayRef<Expr> carried) {
        Expr rest = carried[0], sum = carried[1], before = carried[2];
        return k.choose(
            carried[3], [&] { return Values(carried.begin(), carried.end()); },
            [&] {
              Expr cuts =
                  overHeads([&](Expr h) { return flag(cut(h, rest, sum)); });
              Expr left = overHeads([&](Expr h) {
                return cut(h, rest, sum).select(nothing, share(h));
              });
              return Values{total - capacity * cuts, left, cuts,
                            cuts == before};
            });
      });
  Expr rest = settled[0], sum = settled[1], cuts = settled[2];
  // All shares that are left are 0: equal ones.
  Expr equal = sum == nothing;
  Expr divisor = equal.select(wide(count) - cuts, sum);
  divisor = (divisor == nothing).select(nothing + 1, divisor);
  auto isCut = [&](Expr head) { return cut(head, rest, sum); };
  // Quotient and remainder, bit by bit: no target divides 128 bits.
  auto divide = [&](Expr head) {
    Expr value = equal.select(rest, share(head) * rest);
    return k.loop(
        zero, quotientBits, one, {nothing, value},
        [&](Expr i, ArrayRef<Expr> carried) {
          Expr bit = wide(k.index(quotientBits - 1) - i);
          // divisor << bit might overflow; value >> bit cannot.
          Expr fits = divisor.above(carried[1] >> bit) == k.boolean(false);
          Expr next = carried[1] - (divisor << bit);
          return Values{
              fits.select(carried[0] + ((nothing + 1) << bit), carried[0]),
              fits.select(next, carried[1])};
        });
  };
  auto floorOf = [&](Expr head) {
    return isCut(head).select(capacity, divide(head)[0]);
  };
  Expr left = total - overHeads(floorOf);
  Expr first = k.arg("layer") * perLayer;
  k.loop(zero, perLayer, one, [&](Expr own) {
    Expr mine = divide(first + own)[1], layer = k.arg("layer");
    // Larger remainders first, then the smaller head, then the smaller layer.
    Expr rank = overHeads([&](Expr other) {
      Expr theirs = divide(other)[1];
      Expr head = other % perLayer;
      Expr earlier =
          (head < own) | ((head == own) & (other / perLayer < layer));
      Expr before = theirs.above(mine) | ((theirs == mine) & earlier);
      return flag(before & (isCut(other) == k.boolean(false)));
    });
    Expr extra = (isCut(first + own) == k.boolean(false)) & left.above(rank);
    Expr share = floorOf(first + own) + flag(extra);
    // More than all heads hold: none has more than its past.
    Expr result = share.above(capacity).select(capacity, share);
    store(own, k.expr(arith::TruncIOp::create(k.b, k.b.getI32Type(), result)));
  });
}
