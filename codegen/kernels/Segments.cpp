//===- Segments.cpp - what is set against a segment of the past -----------===//
//
// grid (ceildiv(T, length), Hkv, batch), 512 threads: one block per segment of
// a KV head, the first one also has what lies in front of the others. Walks the
// body in order: statistics of the segment, or of the next one, are loops of
// the whole block; one per channel lies in shared memory. What is computed for
// each token is pulled in where it is needed, as in a rows kernel.
//
// Statistics over channels read K and V twice from memory: as the next segment
// and as the own one.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/RadixSelect.h"
#include "codegen/kernels/TokenReductions.h"

using namespace mlir;
using namespace kvc;

namespace {

/// All segments of a kernel are cut alike.
SegmentOp cutOf(KernelOp kernel) {
  return *kernel.getBody().getOps<SegmentOp>().begin();
}

class SegmentsBuilder : PolicyKernel {
  static constexpr int64_t threads = RowBlock::threads;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    spec.blockSize = threads;
    int64_t length = constantOf(cutOf(kernel).getLength());
    spec.grid = {"ceildiv(tokens," + std::to_string(length) + ")", "kv_heads",
                 "batch"};
    return spec;
  }

public:
  SegmentsBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)), cut(cutOf(kernel)),
        length(constantOf(cut.getLength())), block(k, threads) {}

  void build() {
    makeShared();
    s = openHead(k, k.block(gpu::Dimension::z), yield);
    clearBuffers(k, kernel, s.sequence);
    Expr from = evalScalar(k, s, cut.getFrom()).max(k.index(0)).min(s.past);
    k.when(s.length.above(s.budget), [&] {
      Expr behind = s.past - from;
      Expr count = (behind + (length - 1)) / length + 1;
      Expr blocks = (k.arg("max_tokens") + (length - 1)) / length;
      k.loop(k.block(gpu::Dimension::x), count, blocks, [&](Expr segment) {
        Expr end = from + segment * length;
        Expr begin = (segment == 0).select(k.index(0), end - length);
        runSegment(begin, end);
      });
    });
  }

private:
  SegmentOp cut;
  int64_t length;
  ThreadBlock block;
  Buffer channelRuns;
  std::optional<RowBlock> row, ahead;

  /// What is known of a segment, for each member of the group where it is of
  /// query heads: for vectors in shared memory, a number per channel; for scores
  /// a number.
  struct Statistics {
    llvm::SmallDenseMap<ReduceKind, Buffer> channels;
    llvm::DenseMap<std::pair<ReduceKind, int>, Expr> scores;
  };
  llvm::MapVector<Operation *, Statistics> statistics;

  static bool ofVectors(SegmentOp op) {
    return axesOf(op.getType()).size() == 3;
  }

  /// The reductions over the segment that an op is made from.
  static SmallVector<ReduceKind> reductionsOf(SegmentKind kind) {
    switch (kind) {
    case SegmentKind::Max:
      return {ReduceKind::Max};
    case SegmentKind::Min:
      return {ReduceKind::Min};
    case SegmentKind::Sum:
    case SegmentKind::Mean:
      return {ReduceKind::Sum};
    case SegmentKind::MinMax:
      return {ReduceKind::Min, ReduceKind::Max};
    case SegmentKind::Softmax:
      return {ReduceKind::Max, ReduceKind::Sum};
    case SegmentKind::Rank:
      return {};
    }
    return {};
  }

  void makeShared() {
    for (auto op : kernel.getBody().getOps<SegmentOp>()) {
      if (!ofVectors(op))
        continue;
      if (!channelRuns.memref)
        channelRuns = k.shared(k.b.getF32Type(), threads);
      int64_t members =
          headsOf(op.getType()) == Axis::QueryHeads ? k.shape.group : 1;
      for (ReduceKind kind : reductionsOf(op.getKind()))
        statistics[op].channels[kind] =
            k.shared(k.b.getF32Type(), members * k.shape.headDim,
                     {k.index(k.shape.headDim)});
    }
  }

  void runSegment(Expr begin, Expr end) {
    LeafReader reader = [this](Value v, const Point &p) { return leaf(v, p); };
    head = k.block(gpu::Dimension::y);
    row.emplace(
        RowBlock{k, block, kernel, s, head, reader, begin, end.min(s.past)});
    row->together = 1; // a thread has few tokens, and no registers for more
    ahead.emplace(*row);
    ahead->begin = end.min(s.past);
    ahead->end = (end + length).min(s.past);
    for (Operation &op : kernel.getBody().front()) {
      k.b.setLoc(op.getLoc());
      if (auto store = dyn_cast<StoreOp>(&op))
        row->runStore(store);
      if (auto segment = dyn_cast<SegmentOp>(&op))
        ofVectors(segment) ? runVectors(segment) : runScores(segment);
    }
    row->storeOutputs();
    k.barrier(); // the next segment overwrites what is shared
  }

  RowBlock &tokensOf(SegmentOp op) { return op.getNext() ? *ahead : *row; }

  void runVectors(SegmentOp op) {
    for (ReduceKind kind : reductionsOf(op.getKind()))
      for (int member = 0; member < row->members(op); ++member) {
        Expr result = overChannelTokens(
            tokensOf(op), kind, channelRuns, [&](Expr token, Expr channel) {
              return row->at(token, channel)(op.getValue(), member);
            });
        k.when(k.thread() < k.shape.headDim, [&] {
          k.store(result, statistics[op].channels.lookup(kind),
                  {k.index(member), k.thread()});
        });
      }
    k.barrier(); // the block may read all channels
  }

  void runScores(SegmentOp op) {
    RowBlock &tokens = tokensOf(op);
    for (int j = 0; j < row->members(op); ++j) {
      int member = headsOf(op.getType()) == Axis::QueryHeads ? j : -1;
      for (ReduceKind kind : reductionsOf(op.getKind())) {
        Expr result = tokens.overTokens(kind, [&](Expr token) {
          Expr x = row->at(token)(op.getValue(), member);
          bool weighs =
              op.getKind() == SegmentKind::Softmax && kind == ReduceKind::Sum;
          return weighs ? (x - known(op, ReduceKind::Max, member))
                              .unary<math::ExpOp>()
                        : x;
        });
        statistics[op].scores[{kind, member}] = result;
      }
    }
  }

  Expr known(SegmentOp op, ReduceKind kind, int member) {
    return statistics[op].scores.lookup({kind, member});
  }

  std::optional<Expr> leaf(Value value, const Point &p) {
    if (std::optional<Expr> operand = input(value, p))
      return operand;
    if (auto store = value.getDefiningOp<StoreOp>())
      return row->loadStored(store, p);
    if (auto op = value.getDefiningOp<SegmentOp>())
      return against(op, p);
    return std::nullopt;
  }

  /// The value at a point, set against its segment.
  Expr against(SegmentOp op, const Point &p) {
    auto over = [&](ReduceKind kind) {
      return ofVectors(op) ? k.load(statistics[op].channels.lookup(kind),
                                    {k.index(std::max(p.member, 0)), p.channel})
                           : known(op, kind, p.member);
    };
    auto own = [&] {
      return PointEval(k, s, row->leaf, p)(op.getValue(), p.member);
    };
    switch (op.getKind()) {
    case SegmentKind::Max:
      return over(ReduceKind::Max);
    case SegmentKind::Min:
      return over(ReduceKind::Min);
    case SegmentKind::Sum:
      return over(ReduceKind::Sum);
    case SegmentKind::Mean:
      return over(ReduceKind::Sum) / tokensOf(op).count();
    case SegmentKind::MinMax: {
      Expr least = over(ReduceKind::Min);
      Expr range = over(ReduceKind::Max) - least;
      Expr divisor = (range == k.f32(0)).select(k.f32(1), range);
      return (own() - least) / divisor;
    }
    case SegmentKind::Softmax: {
      Expr sum = over(ReduceKind::Sum);
      Expr share = (own() - over(ReduceKind::Max)).unary<math::ExpOp>() / sum;
      // Behind the last segment there are no tokens.
      return op.getNext() ? (sum == k.f32(0)).select(k.f32(NAN), share) : share;
    }
    case SegmentKind::Rank:
      return rank(op, own(), p);
    }
    llvm_unreachable("all kinds are listed");
  }

  /// How many of the segment's tokens kvc.topk would mark after this one.
  Expr rank(SegmentOp op, Expr value, const Point &p) {
    RowBlock &tokens = tokensOf(op);
    Expr key = orderedKey(k, value);
    Expr behind = k.fold(
        tokens.begin, tokens.end, 1, k.i32(0), [&](Expr token, Expr acc) {
          Point other = p;
          other.token = token;
          Expr theirs = orderedKey(
              k, PointEval(k, s, row->leaf, other)(op.getValue(), p.member));
          Expr after =
              key.above(theirs) | ((key == theirs) & (p.token < token));
          return acc + after.toI32();
        });
    return behind.toFloat();
  }
};

} // namespace

void kvc::buildSegments(KernelOp kernel, const KernelSite &site) {
  SegmentsBuilder(kernel, site).build();
}
