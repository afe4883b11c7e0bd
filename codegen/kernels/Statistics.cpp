//===- Statistics.cpp - the log-sum-exp of the last queries ---------------===//
//
// statistics   grid (splits, Hkv, batch), up to 4 warps, one split of 128
//   tokens each; fewer where many query rows would not fit into shared memory.
//   For each query row: m = max of the logits (base 2), s = sum of 2^(z - m).
//   Shared memory by warp: a logit tile (LogitTile.h) and 8 bytes a query row.
//   Reads K once, writes 8 bytes per row and split. No stages, no block barrier.
// statistics of all queries   grid (T / rows of a step, Hkv, batch), 4 warps of
//   one step each, which walk the tokens that their queries see, 32 at a time,
//   and write the log-sum-exp. No combine. Shared memory: a logit tile by warp.
//   Each warp reads the keys that its queries see, most of them from L2; writes 4
//   bytes a row. No stages, no block barrier.
// combine      grid (rows / 4, 1, batch), one warp per query row, in a fixed
//   order of the splits: lse = m + log2(s). No shared memory; reads what the
//   splits have written, writes 4 bytes a row.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PointEval.h"
#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/LogitTile.h"
#include "codegen/kernels/RowStates.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

// Warps of a combine block, and at most of a statistics block.
static constexpr int64_t maxWarps = 4;
static constexpr double infinity = std::numeric_limits<double>::infinity();

/// Maximum and sum of two partial results; empty parts are (-inf, 0).
static std::pair<Expr, Expr> merge(KernelBuilder &k, Expr m0, Expr s0, Expr m1,
                                   Expr s1) {
  Expr m = m0.max(m1);
  // -inf minus -inf is NaN: an empty part must add nothing.
  Expr lowest = k.f32(-infinity);
  auto scaled = [&](Expr part, Expr sum) {
    return (part == lowest).select(k.f32(0), sum * k.exp2(part - m));
  };
  return {m, scaled(m0, s0) + scaled(m1, s1)};
}

/// [batch][Hq][queries][splits][2]
static Buffer partialBuffer(KernelBuilder &k, StringRef name, int64_t queries) {
  Expr splits = splitCount(k);
  Expr row = splits * 2, head = row * queries;
  Expr batch = head * k.arg("kv_heads") * k.shape.group;
  return k.buffer(name, {batch, head, row, k.index(2)});
}

/// Two lanes share a row of the tile's step: lane 2r takes the first 16 tokens,
/// lane 2r + 1 the others. Both get the statistics of the tokens from `base`
/// that are in front of `seen`.
static std::pair<Expr, Expr> rowOfTile(KernelBuilder &k, LogitTile &tile,
                                       Expr base, Expr seen) {
  Expr row = k.lane() / 2, half = k.lane() % 2;
  SmallVector<Expr> logits;
  Expr m = k.f32(-infinity);
  Expr left = (seen - base).toI32(); // compared in 32 bits
  for (int64_t c = 0; c < LogitTile::tokens / 2; ++c) {
    // Lanes of the two halves, and of rows eight apart, begin in other banks;
    // long keys leave no registers for it.
    Expr turned = WarpProduct::hasLongHeads(k)
                      ? k.index(c)
                      : (half + row / 8 * 2 + c) % (LogitTile::tokens / 2);
    Expr column = half * (LogitTile::tokens / 2) + turned;
    Expr z = (column.toI32() < left)
                 .select(tile.at(row, column), k.f32(-infinity));
    logits.push_back(z);
    m = m.max(z);
  }
  Expr sum = k.f32(0);
  Expr safe = (m == k.f32(-infinity)).select(k.f32(0), m);
  for (Expr z : logits)
    sum = sum + k.exp2(z - safe);
  return merge(k, m, sum, k.shuffleXor(m, 1), k.shuffleXor(sum, 1));
}

/// A row number behind those of a tile's 32 rows from `base` on that the query at
/// `position` sees: its own token's and those in front of it. `least`: the first
/// position of the warp's queries.
static Expr seenOfTile(KernelBuilder &k, const SequenceScalars &s, Expr head,
                       Expr base, Expr position, Expr least) {
  if (!k.shape.hasRows())
    return (position + 1).min(s.length);
  HeadRows rows(k, s.sequence, head, s.length);
  Expr end = (base + LogitTile::tokens).min(s.rows);
  return k.choose(
      rows.position(end - 1) <= least,
      [&] { return KernelBuilder::Values{end}; },
      [&] {
        return KernelBuilder::Values{
            k.fold(base, end, 1, base, [&](Expr row, Expr seen) {
              return (rows.position(row) <= position).select(row + 1, seen);
            })};
      })[0];
}

/// The log-sum-exp of every query, or of the last ones, in the last of max_tokens
/// columns.
static void buildRowLogSumExp(KernelOp kernel, const KernelSite &site) {
  auto op = *kernel.getBody().getOps<RowLogSumExpOp>().begin();
  std::string out = outputBuffers(kernel).front();
  LaunchSpec spec = bodyLaunch(kernel, site);
  addOwnArgs(kernel, site.shape, spec.args);
  spec.blockSize = maxWarps * warpSize;
  int64_t perBlock =
      maxWarps * LogitTile::rows / LogitTile::paddedGroupOf(site.shape);
  spec.grid = {
      std::string(op.getLast() ? "ceildiv(q_rows," : "ceildiv(tokens,") +
          std::to_string(perBlock) + ")",
      "kv_heads", "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);

  LogitTile tile(k, maxWarps, /*spare=*/false, WarpProduct::Stays::Rows);
  Expr rowLength = k.arg("max_tokens");
  Buffer lse =
      k.buffer(out, {rowLength * k.arg("kv_heads") * k.shape.group, rowLength});
  Expr head = k.block(gpu::Dimension::y);
  auto s = openHead(k, k.block(gpu::Dimension::z), head);
  Expr queries = s.length;
  if (op.getLast())
    queries = evalScalar(k, s, op.getLast())
                  .max(k.index(0))
                  .min(s.length)
                  .min(k.arg("q_rows"));
  tile.setQueries(queries);
  Expr step = k.block(gpu::Dimension::x) * maxWarps + k.warp();
  Expr row = k.lane() / 2, member = row % tile.paddedGroup;
  Expr query = step * tile.queriesPerStep() + row / tile.paddedGroup;
  // The position of a query.
  auto positionOf = [&](Expr number) {
    return op.getLast() ? s.length - queries + number : number;
  };
  k.when(hasWork(k, s, kernel) & (step < tile.steps()), [&] {
    // A row's position is its number or a later one.
    Expr end = positionOf((step + 1) * tile.queriesPerStep()).min(s.rows);
    auto total = k.loop(
        0, end, LogitTile::tokens, {k.f32(-infinity), k.f32(0)},
        [&](Expr base, ArrayRef<Expr> carried) {
          tile.loadKeys(s.sequence, head, base, s.rows);
          tile.compute(step);
          Expr seen = seenOfTile(k, s, head, base, positionOf(query),
                                 positionOf(step * tile.queriesPerStep()));
          auto [m, sum] = rowOfTile(k, tile, base, seen);
          std::tie(m, sum) = merge(k, carried[0], carried[1], m, sum);
          k.syncWarp(); // all have read the tile before it is written again
          return KernelBuilder::Values{m, sum};
        });
    k.when((k.lane() % 2 == 0) & (member < k.shape.group) & (query < queries),
           [&] {
             k.store(total[0] + k.log2(total[1]), lse,
                     {s.sequence, head * k.shape.group + member,
                      rowLength - queries + query});
           });
  });
}

void kvc::buildStatistics(KernelOp kernel, const KernelSite &site) {
  if (!kernel.getBody().getOps<RowLogSumExpOp>().empty())
    return buildRowLogSumExp(kernel, site);
  auto op = *kernel.getBody().getOps<RowStatisticsOp>().begin();
  int64_t queries = constantOf(op.getLast());
  int64_t rowCount = llvm::alignTo(
      queries * LogitTile::paddedGroupOf(site.shape), LogitTile::rows);
  int64_t warps =
      warpsThatFit(LogitTile::bytesPerWarp + rowCount * 8, maxWarps);
  std::string out = outputBuffers(kernel).front();
  LaunchSpec spec;
  spec.args = sequenceArgs(site.shape);
  setKeys(spec, site);
  addArg(spec.args, out);
  addOwnArgs(kernel, site.shape, spec.args);
  if (kernel.getEveryRow())
    addArg(spec.args, "carries");
  spec.blockSize = warps * warpSize;
  spec.grid = {"ceildiv(tokens," + std::to_string(warps * splitTokens) + ")",
               "kv_heads", "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);

  // Keys stay, but two of them side by side are too many registers where they
  // are long.
  LogitTile tile(k, warps, /*spare=*/false,
                 WarpProduct::hasLongHeads(k) ? WarpProduct::Stays::Rows
                                              : WarpProduct::Stays::Columns);
  tile.setQueries(k.index(queries));
  Buffer running = k.shared(k.b.getF32Type(), warps * rowCount * 2,
                            {k.index(rowCount * 2), k.index(2)});
  Buffer partial = partialBuffer(k, out, queries);
  Expr head = k.block(gpu::Dimension::y);
  auto s = openHead(k, k.block(gpu::Dimension::z), head);
  Expr lane = k.lane(), warp = k.warp();
  Expr split = k.block(gpu::Dimension::x) * warps + warp;
  Expr first = split * splitTokens;
  Expr zero = k.index(0), one = k.index(1);
  Expr row = lane / 2, half = lane % 2;

  k.when(hasWork(k, s, kernel) & (first < s.rows), [&] {
    k.loop(lane, rowCount, warpSize, [&](Expr r) {
      k.store(k.f32(-infinity), running, {warp, r, zero});
      k.store(k.f32(0), running, {warp, r, one});
    });
    k.syncWarp();
    Expr end = (first + splitTokens).min(s.rows);
    k.loop(first, end, LogitTile::tokens, [&](Expr base) {
      tile.loadKeys(s.sequence, head, base, s.rows);
      k.loop(zero, tile.steps(), one, [&](Expr step) {
        tile.compute(step);
        Expr query = step * tile.queriesPerStep() + row / tile.paddedGroup;
        Expr oldest = s.length - queries;
        Expr seen = seenOfTile(k, s, head, base, oldest + query,
                               oldest + step * tile.queriesPerStep());
        auto [m, sum] = rowOfTile(k, tile, base, seen);
        Expr rowM = m, rowSum = sum;
        Expr slot = step * LogitTile::rows + row;
        k.when(half == 0, [&] {
          auto [newM, newS] =
              merge(k, k.load(running, {warp, slot, zero}),
                    k.load(running, {warp, slot, one}), rowM, rowSum);
          k.store(newM, running, {warp, slot, zero});
          k.store(newS, running, {warp, slot, one});
        });
        k.syncWarp();
      });
    });
    k.loop(lane, rowCount, warpSize, [&](Expr r) {
      Expr member = r % tile.paddedGroup, query = r / tile.paddedGroup;
      k.when((member < k.shape.group) & (query < queries), [&] {
        for (int64_t part : {0, 1})
          k.store(k.load(running, {warp, r, k.index(part)}), partial,
                  {s.sequence, head * k.shape.group + member, query, split,
                   k.index(part)});
      });
    });
  });
}

void kvc::buildCombine(KernelOp kernel, const KernelSite &site) {
  auto op = *kernel.getBody().getOps<CombineStatisticsOp>().begin();
  auto type = cast<RankedTensorType>(op.getType());
  int64_t queries = type.getDimSize(1);
  std::string out = outputBuffers(kernel).front();
  LaunchSpec spec;
  spec.args = sequenceArgs(site.shape);
  addArg(spec.args, site.inputs[0]);
  addArg(spec.args, out);
  if (kernel.getEveryRow())
    addArg(spec.args, "carries");
  spec.blockSize = maxWarps * warpSize;
  spec.grid = {"ceildiv(q_heads*" + std::to_string(queries) + "," +
                   std::to_string(maxWarps) + ")",
               "1", "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);

  Buffer partial = partialBuffer(k, site.inputs[0], queries);
  Expr heads = k.arg("kv_heads") * k.shape.group;
  Buffer lse = k.buffer(out, {heads * queries, k.index(queries)});
  auto s = openSequence(k, k.block(gpu::Dimension::z));
  Expr row = k.block(gpu::Dimension::x) * maxWarps + k.warp();
  Expr head = row / queries, query = row % queries;
  k.when(hasWork(k, s, kernel) & (head < heads), [&] {
    HeadRows rows(k, s.sequence, head / k.shape.group, s.length);
    Expr splits = (rows.count() + (splitTokens - 1)) / splitTokens;
    auto total = k.loop(
        k.lane(), splits, warpSize, {k.f32(-infinity), k.f32(0)},
        [&](Expr split, ArrayRef<Expr> carried) {
          auto read = [&](int64_t part) {
            return k.load(partial,
                          {s.sequence, head, query, split, k.index(part)});
          };
          auto [m, sum] = merge(k, carried[0], carried[1], read(0), read(1));
          return KernelBuilder::Values{m, sum};
        });
    Expr m = total[0], sum = total[1];
    for (int64_t mask = 16; mask; mask /= 2)
      std::tie(m, sum) =
          merge(k, m, sum, k.shuffleXor(m, mask), k.shuffleXor(sum, mask));
    k.when(k.lane() == 0,
           [&] { k.store(m + k.log2(sum), lse, {s.sequence, head, query}); });
  });
}
