//===- Segments.cpp - what is set against a segment of the past -----------===//
//
// grid (ceildiv(T, length) + 1 or more, Hkv, batch), 128 threads: one block per
// segment of a KV head, the first one has what lies in front of the others. Walks
// the body in order.
//
// Statistics of the segment, or of the next one, are loops of the whole block: of
// scores a thread per token, of vectors whole rows per warp (SegmentChannels.h).
// What is computed for each token is pulled in where it is needed, a thread per
// token, as in a rows kernel; reductions over channels and keys to rank by are in
// shared memory by then (StagedReductions.h, SegmentRanks.h).
//
// Shared memory: for each kvc.segment on vectors 4 d bytes, 12 d for a range; for
// all 32 d, or 64 d; 8 KiB for reductions over channels, and as much for each rank;
// two numbers a warp.
// No stages: what a warp reads of vectors is in registers. Barriers: two for each
// reduction of scores, three for each member of vectors', one for ranks and for a stored
// value, and two for as many tokens as have their reductions over channels there together.
// Reads K and V twice: as the next segment, and as the own one, which is in L2 by
// then. Writes 4 bytes a token of each value that other kernels read.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/SegmentChannels.h"
#include "codegen/kernels/SegmentRanks.h"
#include "codegen/kernels/StagedReductions.h"

using namespace mlir;
using namespace kvc;

namespace {

/// All segments of a kernel are cut alike.
SegmentOp cutOf(KernelOp kernel) {
  return *kernel.getBody().getOps<SegmentOp>().begin();
}

class SegmentsBuilder : PolicyKernel {
  static constexpr int64_t threads = 128;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    spec.blockSize = threads;
    int64_t length = constantOf(cutOf(kernel).getLength());
    // One more, at least: what lies in front is a segment too. No block has two, or
    // what they share would be kept in registers from one to the next.
    spec.grid = {"ceildiv(ceildiv(tokens," + std::to_string(length) +
                     ")*257,256)",
                 "kv_heads", "batch"};
    return spec;
  }

public:
  SegmentsBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)), cut(cutOf(kernel)),
        length(constantOf(cut.getLength())), block(k, threads),
        walk(k, threads), channels(k, walk, segmentsOfVectors()),
        reductions(k, walk, mostReductions()), ranks(k) {}

  void build() {
    // While a block waits at a barrier, others work. Where rows lie takes registers.
    int blocks = k.shape.hasRows() ? 3 : 4;
    k.func->setAttr("nvvm.minctasm", k.b.getI32IntegerAttr(blocks));
    for (auto op : kernel.getBody().getOps<SegmentOp>())
      if (op.getKind() == SegmentKind::Rank)
        addRank(op);
    s = openHead(k, k.block(gpu::Dimension::z), yield);
    clearBuffers(k, kernel, s.sequence);
    Expr from = evalScalar(k, s, cut.getFrom()).max(k.index(0)).min(s.past);
    k.when(s.length.above(s.budget), [&] {
      Expr behind = (s.past - from).max(k.index(0));
      Expr count = (behind + (length - 1)) / length + 1;
      Expr segment = k.block(gpu::Dimension::x);
      k.when(segment < count, [&] {
        Expr end = from + segment * length;
        Expr begin = (segment == 0).select(k.index(0), end - length);
        runTokens(begin, end);
      });
    });
  }

private:
  SegmentOp cut;
  int64_t length;
  ThreadBlock block;
  LaneWalk walk;
  SegmentChannels channels;
  StagedReductions reductions;
  SegmentRanks ranks;
  std::optional<RowBlock> row, ahead;

  /// What is known of a segment's scores, for each member of the group where they
  /// are of query heads.
  llvm::DenseMap<std::tuple<Operation *, ReduceKind, int>, Expr> statistics;

  static bool ofVectors(SegmentOp op) {
    return axesOf(op.getType()).size() == 3;
  }

  SmallVector<SegmentOp> segmentsOfVectors() {
    return llvm::filter_to_vector(kernel.getBody().getOps<SegmentOp>(),
                                  ofVectors);
  }

  /// What warps make of tokens' vectors for `values`: nothing of what is stored; of
  /// segments what is set against them, if anything.
  LaneNeeds needsOfLanes(ValueRange values) {
    return laneNeeds(kernel, k.shape.group, values, [](Value value) {
      auto op = value.getDefiningOp<SegmentOp>();
      bool own = !op || op.getKind() == SegmentKind::MinMax ||
                 op.getKind() == SegmentKind::Softmax ||
                 op.getKind() == SegmentKind::Rank;
      return own && !value.getDefiningOp<StoreOp>();
    });
  }

  int64_t mostReductions() {
    size_t most = needsOfLanes(yield.getValues()).reductions.size();
    for (auto store : kernel.getBody().getOps<StoreOp>())
      most = std::max(most, needsOfLanes(store.getValue()).reductions.size());
    return int64_t(most);
  }

  void addRank(SegmentOp op) {
    // What lies in front of the first segment is one too, of any length.
    bool known =
        op.getNext() || op.getFrom().getDefiningOp<arith::ConstantOp>();
    int64_t front = op.getNext() || !known ? 0 : constantOf(op.getFrom());
    ranks.add(op, std::max(length, front), known);
  }

  void runTokens(Expr begin, Expr end) {
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
        reductions.run(*row, needsOfLanes(store.getValue()),
                       [&](RowBlock &tokens) { tokens.runStore(store); });
      if (auto segment = dyn_cast<SegmentOp>(&op))
        runSegment(segment);
    }
    reductions.run(*row, needsOfLanes(yield.getValues()),
                   [](RowBlock &tokens) { tokens.storeOutputs(); });
  }

  RowBlock &tokensOf(SegmentOp op) { return op.getNext() ? *ahead : *row; }

  void runSegment(SegmentOp op) {
    if (ofVectors(op))
      channels.run(op, tokensOf(op), needsOfLanes(op.getValue()));
    else if (op.getKind() == SegmentKind::Rank)
      ranks.run(op, tokensOf(op));
    else
      runScores(op);
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
        statistics[{op, kind, member}] = result;
      }
    }
  }

  Expr known(SegmentOp op, ReduceKind kind, int member) {
    return statistics.lookup({op, kind, member});
  }

  std::optional<Expr> leaf(Value value, const Point &p) {
    if (std::optional<Expr> known = walk.find(value, p))
      return known;
    if (std::optional<Expr> operand = input(value, p))
      return operand;
    if (auto store = value.getDefiningOp<StoreOp>())
      return row->loadStored(store, p);
    if (auto op = value.getDefiningOp<SegmentOp>())
      return against(op, p);
    return reductions.find(value, p);
  }

  /// The value at a point, set against its segment.
  Expr against(SegmentOp op, const Point &p) {
    auto over = [&](ReduceKind kind) { return known(op, kind, p.member); };
    auto own = [&] {
      return PointEval(k, s, row->leaf, p)(op.getValue(), p.member);
    };
    if (ofVectors(op))
      return channels.against(op, p, own);
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
      return ranks.at(op, tokensOf(op), p, own());
    }
    llvm_unreachable("all kinds are listed");
  }
};

} // namespace

void kvc::buildSegments(KernelOp kernel, const KernelSite &site) {
  SegmentsBuilder(kernel, site).build();
}
