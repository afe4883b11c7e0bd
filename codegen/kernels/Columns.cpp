//===- Columns.cpp - what is parallel over past tokens --------------------===//
//
// grid (ceildiv(T, 128), Hkv, batch), 4 warps of 32 tokens (fewer where rows of
// all heads would not fit into shared memory); lane = token. Where rows are
// pooled, the tiles of neighbouring warps overlap by the pool's reach. With a
// reduction over all heads the warp walks the heads itself: grid (.., 1,
// batch).
//
//   for each KV head:
//     for each step of 16 query rows (all queries: from the tile's first token
//     on, since older ones do not see it):
//                                         logits of the tile, then each lane
//       accumulates its column            the policy's formula, row by row
//     for each step of 16 outputs of the projection: norms behind it
//     the rest of the formula on the accumulated columns; store
//   what has one row for all heads; store
//
// Reads K once per KV head (and V, if the policy does), writes only what other
// kernels read. Warps do not meet: no block barrier. Sums run in ascending
// order of query, then member of the group, then KV head.
//
//===----------------------------------------------------------------------===//

#include "codegen/PointEval.h"
#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/LogitTile.h"
#include "codegen/kernels/ProjectedNorm.h"
#include "codegen/kernels/ThreadBlock.h"

using namespace mlir;
using namespace kvc;

namespace {

constexpr int64_t maxWarps = 4;

using Values = KernelBuilder::Values;

class ColumnsBuilder {
public:
  ColumnsBuilder(KernelOp kernel, const KernelSite &site)
      : kernel(kernel), site(site),
        yield(cast<YieldOp>(kernel.getBody().front().back())) {
    for (Operation &op : kernel.getBody().front()) {
      if (auto attention = dyn_cast<AttentionOp>(op)) {
        attends = true;
        readsLse |= !attention.getLogits();
        readsLogits |= attention.getLogits();
        readsAll |= attention.readsAll();
        fixedQueries = std::max(fixedQueries, constantOf(attention.getLast()));
      }
      if (auto norm = dyn_cast<ProjectedNormOp>(op))
        projectedNorms.push_back(norm);
      auto reduce = dyn_cast<ReduceOp>(op);
      if (!reduce)
        continue;
      bool rank3 =
          cast<RankedTensorType>(reduce.getValue().getType()).getRank() == 3;
      bool oneHead = headsOf(reduce.getValue().getType()) == Axis::OneHead;
      if (reduce.getAxis() == ReduceAxis::Heads && !oneHead)
        (rank3 ? rowHeads : columnHeads).push_back(reduce);
      if (reduce.getAxis() == ReduceAxis::Window)
        (oneHead ? lateWindows : windows).push_back(reduce);
    }
    for (Operation &op : kernel.getBody().front())
      for (Value result : op.getResults())
        halo = std::max(halo, rowReach(result));
    int64_t bytes = attends ? LogitTile::bytesPerWarp : 0;
    bytes += projectedNorms.empty() ? 0 : WarpProduct::columns * 4;
    bytes += gathers() ? gatherTokens * 4 : 0;
    for (ReduceOp reduce : rowHeads)
      bytes += windowOf(reduce) * warpSize * 4;
    warps = warpsThatFit(bytes, maxWarps);
  }

  void build() {
    KernelBuilder k(site.builder, site.name, site.shape, launch(),
                    site.scratch);
    run(k);
  }

private:
  KernelOp kernel;
  const KernelSite &site;
  YieldOp yield;
  /// The largest window, unless all queries are read.
  int64_t fixedQueries = 0, warps = maxWarps;
  bool attends = false, readsAll = false, readsLse = false, readsLogits = false;
  /// Tokens at either end of a warp's tile that only its neighbours store.
  int64_t halo = 0;
  int64_t tokensPerWarp() const { return warpSize - 2 * halo; }
  /// First token of the warp's tile, below 0 in front of the sequence.
  Expr tileStart;
  /// How many queries are read.
  Expr queries;
  /// Reductions over the window: inside a head, and after all heads.
  SmallVector<ReduceOp> windows, lateWindows;
  /// Reductions over all heads: of rows (kept in shared memory), of columns.
  SmallVector<ReduceOp> rowHeads, columnHeads;
  SmallVector<ProjectedNormOp> projectedNorms;
  Buffer normSums;
  /// Tokens that a warp looks through for marked ones, and the list of those.
  static constexpr int64_t gatherTokens = 256;
  Buffer gathered;
  llvm::DenseMap<Operation *, Buffer> rowHeadSums;
  llvm::DenseMap<std::pair<Operation *, int>, Expr> finished;

  /// All that the kernel does is norms of the tokens that one mask marks.
  bool gathers() const {
    if (projectedNorms.empty() || attends || walksHeads())
      return false;
    Value mask = ProjectedNormOp(projectedNorms.front()).getWhere();
    return mask && llvm::all_of(projectedNorms, [&](ProjectedNormOp op) {
             return op.getWhere() == mask;
           });
  }

  bool walksHeads() const { return !rowHeads.empty() || !columnHeads.empty(); }

  LaunchSpec launch() {
    LaunchSpec spec = bodyLaunch(kernel, site);
    if (attends) {
      LogitTile::addArgs(spec.args);
      if (readsLse)
        for (const char *arg :
             {"lse", "lse_rows", "lse_batch", "lse_head", "lse_scale"})
          addArg(spec.args, arg);
    }
    for (auto norm : kernel.getBody().getOps<NormOp>())
      addSideArgs(spec.args, norm.getSide());
    if (!projectedNorms.empty()) {
      addSideArgs(spec.args, CacheSide::Value);
      // Bounds read the weights' quadratic form instead of the weights.
      if (!llvm::all_of(projectedNorms,
                        [](ProjectedNormOp op) { return op.getBound(); }))
        for (const char *arg :
             {"wo", "wo_batch", "wo_head", "wo_row", "hidden"})
          addArg(spec.args, arg);
    }
    spec.blockSize = warps * warpSize;
    int64_t tokens = gathers() ? gatherTokens : tokensPerWarp();
    spec.grid = {"ceildiv(tokens," + std::to_string(warps * tokens) + ")",
                 walksHeads() ? "1" : "kv_heads", "batch"};
    return spec;
  }

  void run(KernelBuilder &k) {
    std::optional<LogitTile> tile;
    if (attends)
      tile.emplace(k, warps, /*spare=*/halo > 0);
    if (!projectedNorms.empty())
      normSums = k.shared(k.b.getF32Type(), warps * WarpProduct::columns,
                          {k.index(WarpProduct::columns)});
    if (gathers())
      gathered = k.shared(k.b.getI32Type(), warps * gatherTokens,
                          {k.index(gatherTokens)});
    for (ReduceOp reduce : rowHeads)
      rowHeadSums[reduce] =
          k.shared(k.b.getF32Type(), warps * windowOf(reduce) * warpSize,
                   {k.index(windowOf(reduce) * warpSize), k.index(warpSize)});

    auto s =
        openSequence(k, k.block(gpu::Dimension::z), yield.getProtectLast());
    queries = readsAll ? s.length : k.index(fixedQueries);
    if (tile)
      tile->setQueries(queries);
    if (gathers())
      return runGathered(k, s);
    Expr first =
        (k.block(gpu::Dimension::x) * warps + k.warp()) * tokensPerWarp();
    k.when(s.length.above(s.budget) & (first < s.past), [&] {
      tileStart = halo ? first - halo : first;
      Expr token = tileStart + k.lane();
      Expr exists = token < s.past;
      if (halo)
        exists = exists & (k.lane() >= halo) & (k.lane() < warpSize - halo);
      Expr safeToken = token.min(s.past - 1);
      if (halo)
        safeToken = safeToken.max(k.index(0));
      SmallVector<Expr> starts;
      for (ReduceOp reduce : columnHeads)
        starts.push_back(reductionStart(k, reduce.getKind()));
      Expr heads = walksHeads() ? k.arg("kv_heads") : Expr();
      auto head = [&](Expr kvHead, ArrayRef<Expr> carried) {
        return runHead(k, tile ? &*tile : nullptr, s, kvHead, safeToken, exists,
                       carried);
      };
      if (!walksHeads()) {
        head(k.block(gpu::Dimension::y), {});
        return;
      }
      Values sums = k.loop(
          k.index(0), heads, k.index(1), starts,
          [&](Expr h, ArrayRef<Expr> carried) { return head(h, carried); });
      runAllHeads(k, s, heads, sums, safeToken, exists);
    });
  }

  /// Rows of a value; 0 where they are those of all queries.
  static int64_t windowOf(ReduceOp reduce) {
    auto type = cast<RankedTensorType>(reduce.getValue().getType());
    return type.isDynamicDim(1) ? 0 : type.getDimSize(1);
  }

  /// One KV head: rows to columns, columns to outputs. Returns the carried sums
  /// over heads.
  Values runHead(KernelBuilder &k, LogitTile *tile, const SequenceScalars &s,
                 Expr kvHead, Expr token, Expr exists, ArrayRef<Expr> carried) {
    finished.clear();
    Point point{kvHead, -1, {}, token};
    if (tile)
      accumulateRows(k, *tile, s, point);
    for (ProjectedNormOp norm : projectedNorms)
      projectNorm(k, norm, s, point, [&](Expr column) {
        return clamp(k, tileStart + column, s.past);
      });
    LeafReader leaf = [&, this](Value value, const Point &p) {
      return readColumn(k, s, value, p);
    };
    PointEval eval(k, s, leaf, point);
    storeOutputs(k, s, eval, point, exists, /*oneHead=*/false);
    Values next;
    for (auto [reduce, sum] : llvm::zip(columnHeads, carried)) {
      Expr total = sum;
      forMembers(k, reduce.getValue(), [&](int j) {
        total =
            reductionStep(reduce.getKind(), total, eval(reduce.getValue(), j));
      });
      next.push_back(total);
    }
    return next;
  }

  static Expr clamp(KernelBuilder &k, Expr i, Expr count) {
    return i.max(k.index(0)).min(count - 1);
  }

  static void forMembers(KernelBuilder &k, Value value,
                         llvm::function_ref<void(int)> body) {
    if (headsOf(value.getType()) != Axis::QueryHeads)
      return body(-1);
    for (int j = 0; j < k.shape.group; ++j)
      body(j);
  }

  /// Accumulators: one per window reduction and member of the group.
  void accumulateRows(KernelBuilder &k, LogitTile &tile,
                      const SequenceScalars &s, Point point) {
    tile.loadKeys(s.sequence, point.kvHead, tileStart, s.length);
    SmallVector<std::pair<ReduceOp, int>> slots;
    SmallVector<Expr> starts;
    for (ReduceOp reduce : windows)
      forMembers(k, reduce.getValue(), [&](int j) {
        slots.push_back({reduce, j});
        starts.push_back(reductionStart(k, reduce.getKind()));
      });
    // Older queries do not see the tile's tokens, but logits are of all.
    Expr from = readsAll && !readsLogits
                    ? tileStart.max(k.index(0)) / tile.queriesPerStep()
                    : k.index(0);
    Values sums = k.loop(
        from, tile.steps(), k.index(1), starts,
        [&](Expr step, ArrayRef<Expr> carried) {
          tile.compute(step);
          Values next(carried.begin(), carried.end());
          for (int64_t local = 0; local < tile.queriesPerStep(); ++local)
            accumulateQuery(k, tile, s, point, step, local, slots, next);
          k.syncWarp(); // all have read the tile before it is written again
          return next;
        });
    for (auto [slot, sum] : llvm::zip(slots, sums)) {
      ReduceOp reduce = slot.first;
      int64_t window = windowOf(reduce);
      Expr count = window ? k.f32(window) : queries.toFloat();
      finished[{reduce, slot.second}] =
          reduce.getKind() == ReduceKind::Mean ? sum / count : sum;
    }
  }

  /// Marked tokens only: the warp lists those of its 256, 32 at a time, and
  /// stores what the others have without a norm; then it works on the list.
  void runGathered(KernelBuilder &k, const SequenceScalars &s) {
    Expr head = k.block(gpu::Dimension::y);
    Expr first = (k.block(gpu::Dimension::x) * warps + k.warp()) * gatherTokens;
    Value mask = ProjectedNormOp(projectedNorms.front()).getWhere();
    LeafReader leaf = [&, this](Value value, const Point &p) {
      return readColumn(k, s, value, p);
    };
    k.when(s.length.above(s.budget) & (first < s.past), [&] {
      for (ProjectedNormOp norm : projectedNorms)
        for (int j = 0; j < k.shape.group; ++j)
          finished[{norm, j}] = k.f32(0);
      Expr count =
          k.loop(
               k.index(0), k.index(gatherTokens), k.index(warpSize), {k.i32(0)},
               [&](Expr chunk, ArrayRef<Expr> listed) {
                 Expr token = first + chunk + k.lane(), exists = token < s.past;
                 Point point{head, -1, {}, token.min(s.past - 1)};
                 PointEval eval(k, s, leaf, point);
                 Expr marked = eval(mask);
                 storeOutputs(k, s, eval, point,
                              exists & (marked == k.boolean(false)), false);
                 Expr bits = k.ballot(exists & marked);
                 Expr place = listed[0] + bitsBelow(k, bits);
                 k.when(exists & marked, [&] {
                   k.store(token.toI32(), gathered,
                           {k.warp(), place.toIndex()});
                 });
                 return Values{listed[0] + k.popcount(bits)};
               })[0]
              .toIndex();
      k.syncWarp(); // the list is complete
      k.loop(k.index(0), count, k.index(warpSize), [&](Expr base) {
        auto listed = [&](Expr column) {
          Expr item = (base + column).min(count - 1);
          return k.load(gathered, {k.warp(), item}).toIndex();
        };
        finished.clear();
        Point point{head, -1, {}, listed(k.lane())};
        for (ProjectedNormOp norm : projectedNorms)
          projectNorm(k, norm, s, point, listed);
        PointEval eval(k, s, leaf, point);
        storeOutputs(k, s, eval, point, base + k.lane() < count, false);
      });
      finished.clear();
    });
  }

  /// Norms of 32 values behind the output projection, head by head of the
  /// group: products leave the registers as sums only. `tokenOf` gives a
  /// column's token.
  void projectNorm(KernelBuilder &k, ProjectedNormOp op,
                   const SequenceScalars &s, const Point &point,
                   llvm::function_ref<Expr(Expr)> tokenOf) {
    WarpProduct product(k, /*spare=*/projectedNorms.size() > 1 || halo > 0);
    product.loadColumns(sideBuffer(k, CacheSide::Value), [&](Expr column) {
      return SmallVector<Expr>{s.sequence, point.kvHead, tokenOf(column)};
    });
    for (int j = 0; j < k.shape.group; ++j) {
      Expr head = point.kvHead * k.shape.group + j;
      Expr norm = op.getBound()
                      ? projectedNormBound(k, op, site, s, product, point, head,
                                           tokenOf, normSums)
                      : projectedNorm(k, op, s, product, head, normSums);
      if (op.getWhere() && !gathers()) {
        PointEval eval(
            k, s,
            [&, this](Value value, const Point &p) {
              return readColumn(k, s, value, p);
            },
            point);
        norm = eval(op.getWhere()).select(norm, k.f32(0));
      }
      finished[{op, j}] = norm;
    }
  }

  /// Adds one query's row of each value that is reduced over the window.
  void accumulateQuery(KernelBuilder &k, LogitTile &tile,
                       const SequenceScalars &s, Point point, Expr step,
                       int64_t local, ArrayRef<std::pair<ReduceOp, int>> slots,
                       Values &sums) {
    Expr query = step * tile.queriesPerStep() + local;
    bool partial = readsAll || fixedQueries % tile.queriesPerStep() != 0;
    LeafReader leaf = [&](Value value, const Point &p) -> std::optional<Expr> {
      if (auto attention = value.getDefiningOp<AttentionOp>())
        return weight(k, tile, s, p, attention, query, local);
      return readColumn(k, s, value, p);
    };
    point.query = query;
    PointEval eval(k, s, leaf, point);
    auto guarded = [&](int64_t window, Expr old, Expr updated) {
      // Rows in front of a shorter window, and rows that pad the last step.
      if (window && (readsAll || window < fixedQueries))
        updated = (query >= queries - window).select(updated, old);
      return partial ? (query < queries).select(updated, old) : updated;
    };
    for (auto [slot, sum] : llvm::zip(slots, sums)) {
      ReduceOp reduce = slot.first;
      sum = guarded(windowOf(reduce), sum,
                    reductionStep(reduce.getKind(), sum,
                                  eval(reduce.getValue(), slot.second)));
    }
    for (ReduceOp reduce : rowHeads) {
      Buffer memory = rowHeadSums[reduce];
      int64_t window = windowOf(reduce);
      Expr row =
          (query - (queries - window)).max(k.index(0)).min(k.index(window - 1));
      Expr old = k.load(memory, {k.warp(), row, k.lane()});
      Expr start =
          (point.kvHead == 0).select(reductionStart(k, reduce.getKind()), old);
      Expr total = start;
      forMembers(k, reduce.getValue(), [&](int j) {
        total =
            reductionStep(reduce.getKind(), total, eval(reduce.getValue(), j));
      });
      k.store(guarded(window, old, total), memory, {k.warp(), row, k.lane()});
    }
  }

  /// exp(logit - lse), 0 for tokens behind the query; or the logit itself.
  Expr weight(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
              const Point &p, AttentionOp op, Expr query, int64_t local) {
    // A pool asks for neighbours; what lies behind the tile's ends is asked for
    // by lanes whose result nobody stores.
    Expr column =
        halo ? clamp(k, p.token - tileStart, k.index(warpSize)) : k.lane();
    Expr logit = tile.at(k.index(local * tile.paddedGroup + p.member), column);
    if (op.getLogits()) // the tile's are base 2
      return logit * k.f32(0.6931471805599453);
    Expr row = query.min(queries - 1);
    Buffer lse = k.buffer("lse", {k.arg("lse_batch"), k.arg("lse_head")});
    Expr shift = k.load(lse, {s.sequence, headIndex(k, Axis::QueryHeads, p),
                              k.arg("lse_rows") - queries + row}) *
                 k.arg("lse_scale");
    Expr seen = p.token <= s.length - queries + row;
    Expr value = seen.select(k.exp2(logit - shift), k.f32(0));
    if (!op.getRounded() || k.shape.dtype == DType::F32)
      return value;
    Type element = k.shape.elementType(k.b.getContext());
    return k.expr(arith::TruncFOp::create(k.b, element, value)).widen();
  }

  std::optional<Expr> readColumn(KernelBuilder &k, const SequenceScalars &s,
                                 Value value, const Point &p) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return readInput(k, s, site, value, p);
    if (auto it = finished.find({op, p.member}); it != finished.end())
      return it->second;
    return std::nullopt;
  }

  /// What has one row for all heads, once every head is done.
  void runAllHeads(KernelBuilder &k, const SequenceScalars &s, Expr heads,
                   ArrayRef<Expr> sums, Expr token, Expr exists) {
    finished.clear();
    auto finish = [&](ReduceOp reduce, Expr total) {
      if (reduce.getKind() != ReduceKind::Mean)
        return total;
      bool perQuery = headsOf(reduce.getValue().getType()) == Axis::QueryHeads;
      return total / (heads * (perQuery ? k.shape.group : 1)).toFloat();
    };
    for (auto [reduce, sum] : llvm::zip(columnHeads, sums))
      finished[{reduce, -1}] = finish(reduce, sum);
    Point point{k.index(0), -1, {}, token};
    for (ReduceOp reduce : lateWindows) {
      int64_t window = windowOf(reduce);
      Expr total =
          k.loop(k.index(0), k.index(window), k.index(1),
                 {reductionStart(k, reduce.getKind())},
                 [&](Expr row, ArrayRef<Expr> carried) {
                   LeafReader leaf =
                       [&](Value value, const Point &p) -> std::optional<Expr> {
                     auto rows = value.getDefiningOp<ReduceOp>();
                     if (rows && rowHeadSums.count(rows))
                       return finish(rows, k.load(rowHeadSums[rows],
                                                  {k.warp(), row, k.lane()}));
                     return readColumn(k, s, value, p);
                   };
                   PointEval eval(k, s, leaf, point);
                   return Values{reductionStep(reduce.getKind(), carried[0],
                                               eval(reduce.getValue()))};
                 })[0];
      finished[{reduce, -1}] =
          reduce.getKind() == ReduceKind::Mean ? total / k.f32(window) : total;
    }
    LeafReader leaf = [&, this](Value value, const Point &p) {
      return readColumn(k, s, value, p);
    };
    PointEval eval(k, s, leaf, point);
    storeOutputs(k, s, eval, point, exists, /*oneHead=*/true);
  }

  void storeOutputs(KernelBuilder &k, const SequenceScalars &s, PointEval &eval,
                    const Point &point, Expr exists, bool oneHead) {
    for (auto [value, name] :
         llvm::zip(yield.getValues(), outputBuffers(kernel))) {
      Axis heads = headsOf(value.getType());
      if (walksHeads() && (heads == Axis::OneHead) != oneHead)
        continue;
      Buffer memory = scratchBuffer(k, name, value.getType());
      forMembers(k, value, [&](int j) {
        Point p = point;
        p.member = j;
        Expr result = eval(value, j);
        Expr row = headIndex(k, heads, p);
        // One row for all heads without a walk: every block has the same value;
        // the first head's writes it.
        Expr mine = heads == Axis::OneHead && !oneHead
                        ? exists & (point.kvHead == 0)
                        : exists;
        k.when(mine, [&] {
          k.store(result, memory, {s.sequence, row, point.token});
        });
      });
    }
  }
};

} // namespace

void kvc::buildColumns(KernelOp kernel, const KernelSite &site) {
  ColumnsBuilder(kernel, site).build();
}
