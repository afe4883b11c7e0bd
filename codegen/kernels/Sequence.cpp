//===- Sequence.cpp - what looks at all heads' rows at once ---------------===//
//
// grid (1, 1, batch), 512 threads: one block per sequence. Allocation by a
// table is in TableAllocation.cpp. Allocation by where the best scores are: what
// lies above the candidates is in the histograms of first digits, which kernels in
// front have made (Candidates.h); among the candidates of all heads a threshold,
// item t * Hkv + g, so that ties go to the smaller token and then to the smaller
// head; the blend, rounded by largest remainder. Reads no scores: two histograms
// of 8 KiB per head, twice, and the candidates' keys.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Candidates.h"
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
      radix.emplace(k, block);
      // The runtime refuses plans with more KV heads.
      chosen = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
      floors = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
      remainders = k.shared(k.b.getI32Type(), KVC_MAX_KV_HEADS);
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
  Expr heads;

  void allocate(AllocateHeadsOp op, const std::string &out) {
    Expr zero = k.index(0), one = k.index(1), thread = k.thread();
    Expr step = k.index(threads);
    auto base = [&](Expr head) {
      return atLeastNone(k, valueAt(op.getBase(), head, zero).toIndex(),
                         op.getBase());
    };
    Expr total = k.fold(zero, heads, one, zero,
                        [&](Expr head, Expr acc) { return acc + base(head); });
    Expr items = s.past * heads;
    k.barrier(); // another allocation may still be read
    // All heads' past may be less than what is shared.
    Expr start = (total < items).select(zero, s.past).toI32();
    k.loop(thread, heads, step,
           [&](Expr head) { k.store(start, chosen, {head}); });
    k.barrier(); // the counts are set
    k.when((total > 0) & (total < items), [&] {
      Candidates(k, site, s.sequence, op.getCandidates())
          .countChosen(*radix, block, heads, items, total, chosen);
    });
    k.barrier(); // the counts are full

    // (1 - s) * f + s * base = value / denominator. Every thread of the warp
    // walks the same heads: base may be a computation of the whole warp.
    auto [numerator, denominator] =
        op.getSafeguard().getDefiningOp<FractionOp>().getRatio();
    k.loop(zero, heads, one, [&](Expr head) {
      Expr value =
          k.load(chosen, {head}).toIndex() * (denominator - numerator) +
          base(head) * numerator;
      k.when(thread == 0, [&] {
        k.store((value / denominator).toI32(), floors, {head});
        k.store((value % denominator).toI32(), remainders, {head});
      });
    });
    k.barrier(); // floors and remainders are known
    Buffer result = scratchBuffer(k, out, op.getType());
    k.loop(thread, heads, step, [&](Expr head) {
      Expr own = k.load(remainders, {head});
      auto sums = k.loop(
          zero, heads, one, {k.i32(0), k.i32(0)},
          [&](Expr other, ArrayRef<Expr> carried) {
            Expr rest = k.load(remainders, {other});
            Expr before = rest.above(own) | ((rest == own) & (other < head));
            return KernelBuilder::Values{carried[0] + k.load(floors, {other}),
                                         carried[1] + before.toI32()};
          });
      Expr left = total.toI32() - sums[0];
      k.store(k.load(floors, {head}) + (sums[1] < left).toI32(), result,
              {s.sequence, head});
    });
  }
};

} // namespace

void kvc::buildSequence(KernelOp kernel, const KernelSite &site) {
  SequenceBuilder(kernel, site).build();
}
