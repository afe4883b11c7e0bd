//===- Sequence.cpp - what looks at all heads' rows at once ---------------===//
//
// grid (1, 1, batch), 512 threads: one block per sequence. Allocation by a
// table is in TableAllocation.cpp. Allocation by where the best scores are: what
// lies above the candidates is counted where these are listed (Candidates.h); among the
// candidates of all heads a threshold, item p * Hkv + g of position p, so that ties go
// to the smaller one and then to the smaller head; the blend, rounded by largest
// remainder, in a cache of rows with what heads have as their limits (HeadShares.h).
//
// Shared memory: by scores 46 KiB (RadixSelect.h: 34, and three numbers a head; in a cache
// of rows 18, and HeadShares.h), by a table 8; two numbers a warp. No stages. Barriers: by
// scores seven of a search that leaves up to 256 candidates, and four; in a cache of rows
// those of HeadShares.h; by a table two for each sum over all heads. Reads no scores: a
// histogram of 8 KiB, four bytes a split of each head, and the candidates with their keys,
// 8 bytes each; by a table its entries, for each head of the layer again. Writes 4 bytes a
// head.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Candidates.h"
#include "codegen/kernels/HeadShares.h"
#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/TableAllocation.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

namespace {

template <typename Op> bool has(KernelOp kernel) {
  return !kernel.getBody().getOps<Op>().empty();
}

class SequenceBuilder : PolicyKernel {
  static constexpr int64_t threads = 512;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    addOwnArgs(kernel, site.shape, spec.args);
    if (has<AllocateTableOp>(kernel))
      addArg(spec.args, "status");
    spec.blockSize = threads;
    spec.grid = {"1", "1", "batch"};
    return spec;
  }

public:
  SequenceBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)), block(k, threads) {}

  void build() {
    if (has<AllocateHeadsOp>(kernel)) {
      // Where heads can have less past than base, their shares take a part of the memory.
      bool cuts = k.shape.hasRows() ||
                  llvm::any_of(kernel.getBody().getOps<AllocateHeadsOp>(),
                               mayExceedPast);
      radix.emplace(k, block, /*tallies=*/0,
                    cuts ? 1024 : RadixSelect::usualRoom);
      // The runtime refuses plans with more KV heads.
      chosen = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
      if (cuts) {
        shares.emplace(k, block);
        division.emplace(k, block);
      } else {
        floors = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
        remainders = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
      }
    }
    std::optional<TableAllocation> table;
    if (has<AllocateTableOp>(kernel))
      table.emplace(k, block);
    heads = k.arg("kv_heads");
    openBlock();
    k.when(s.length.above(s.budget), [&] {
      for (auto [value, name] : results()) {
        if (auto heads = value.getDefiningOp<AllocateHeadsOp>()) {
          allocate(heads, name);
          continue;
        }
        auto op = value.getDefiningOp<AllocateTableOp>();
        Buffer result = scratchBuffer(k, name, op.getType());
        auto count = [&](Value value) {
          return atLeastNone(k, evalScalar(k, s, value), value);
        };
        table->allocate(
            s, count(op.getBase()), count(op.getShared()),
            [&](Expr head, Expr count) {
              Expr own = count;
              if (k.shape.hasRows())
                own =
                    count + openHead(k, s.sequence, head, yield).unused.toI32();
              k.when(k.thread() == 0,
                     [&] { k.store(own, result, {s.sequence, head}); });
            });
      }
    });
  }

private:
  ThreadBlock block;
  std::optional<RadixSelect> radix;
  Buffer chosen, floors, remainders;
  /// Where a head's base may exceed its past, in place of floors and remainders.
  std::optional<HeadShares> shares;
  std::optional<HeadDivision> division;
  Expr heads;

  /// Of a prompt, whose heads have equal pasts: shares of a budget fit, computed bases
  /// need not.
  static bool mayExceedPast(AllocateHeadsOp op) {
    return !isa_and_nonnull<AllocateOp, AllocateLayersOp>(
        op.getBase().getDefiningOp());
  }

  void allocate(AllocateHeadsOp op, const std::string &out) {
    Expr thread = k.thread(), step = k.index(threads);
    bool cuts = shares.has_value();
    auto baseOf = [&](const SequenceScalars &s, Expr head) {
      PointEval eval(
          k, s, [this](Value v, const Point &p) { return input(v, p); },
          Point{head, -1, {}, k.index(0)});
      return atLeastNone(k, eval(op.getBase()).toIndex(), op.getBase());
    };
    auto base = [&](Expr head) {
      return cuts ? shares->base(head) : k.load(remainders, {head}).toIndex();
    };
    k.barrier(); // another allocation may still be read
    Expr total;
    if (cuts) {
      shares->open(s, yield, baseOf);
      total = shares->total();
    } else {
      // Every thread walks the same heads: a base may be a computation of whole warps.
      // A head's remainder takes the place of its base.
      total = k.fold(0, heads, 1, k.index(0), [&](Expr head, Expr sum) {
        Expr own = baseOf(s, head);
        k.when(thread == 0, [&] { k.store(own.toI32(), remainders, {head}); });
        return sum + own;
      });
    }
    Expr items = cuts ? shares->items() : s.past * heads;
    Expr positions = k.shape.hasRows() ? s.length : s.past;
    // All heads' past may be less than what is shared.
    k.loop(thread, heads, step, [&](Expr head) {
      Expr past = cuts ? shares->past(head) : s.past;
      k.store((total < items).select(k.index(0), past).toI32(), chosen, {head});
    });
    k.barrier(); // the counts are set
    k.when((total > 0) & (total < items), [&] {
      Candidates(k, site, s.sequence, op.getScore(), op.getCandidates())
          .countChosen(*radix, block, s, positions, chosen);
    });
    k.barrier(); // the counts are full

    // (1 - s) * f + s * base = value / denominator.
    auto [numerator, denominator] =
        op.getSafeguard().getDefiningOp<FractionOp>().getRatio();
    auto value = [&, numerator = numerator, whole = denominator](Expr head) {
      return k.load(chosen, {head}).toIndex() * (whole - numerator) +
             base(head) * numerator;
    };
    Buffer result = scratchBuffer(k, out, op.getType());
    auto store = [&](Expr head, Expr count) {
      k.store(count, result, {s.sequence, head});
    };
    if (cuts)
      division->divide(*shares, value, denominator, store);
    else
      round(value, denominator, total, store);
  }

  /// value / whole of each head, by largest remainder.
  void round(llvm::function_ref<Expr(Expr)> value, int64_t whole, Expr total,
             llvm::function_ref<void(Expr, Expr)> store) {
    Expr zero = k.index(0), thread = k.thread();
    k.loop(thread, heads, threads, [&](Expr head) {
      Expr share = value(head);
      k.store((share / whole).toI32(), floors, {head});
      k.store((share % whole).toI32(), remainders, {head});
    });
    k.barrier(); // floors and remainders are known
    k.loop(thread, heads, threads, [&](Expr head) {
      Expr own = k.load(remainders, {head});
      using Values = KernelBuilder::Values;
      auto sums = k.stream(
          zero, heads, 1, {k.i32(0), k.i32(0)},
          [&](Expr other) {
            return Values{k.load(floors, {other}), k.load(remainders, {other})};
          },
          [&](Expr other, ArrayRef<Expr> made, ArrayRef<Expr> carried) {
            Expr rest = made[1];
            Expr before = rest.above(own) | ((rest == own) & (other < head));
            return Values{carried[0] + made[0], carried[1] + before.toI32()};
          },
          /*together=*/8);
      Expr left = total.toI32() - sums[0];
      store(head, k.load(floors, {head}) + (sums[1] < left).toI32());
    });
  }
};

} // namespace

void kvc::buildSequence(KernelOp kernel, const KernelSite &site) {
  SequenceBuilder(kernel, site).build();
}
