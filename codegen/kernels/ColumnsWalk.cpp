//===- ColumnsWalk.cpp - what is parallel over past tokens ----------------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"
#include "codegen/kernels/RowStates.h"

using namespace mlir;
using namespace kvc;

void ColumnsBuilder::build() {
  KernelBuilder k(site.builder, site.name, site.shape, launch(), site.scratch);
  int64_t blocks = fillsAnSM() ? blocksOfSM() : fitsTwice() ? 2 : 1;
  k.func->setAttr("nvvm.minctasm", k.b.getI32IntegerAttr(blocks));
  if (readsAll || computesNorms())
    k.startLate();
  run(k);
}

void ColumnsBuilder::run(KernelBuilder &k) {
  std::optional<LogitTile> tile;
  if (site.warpgroups && !isForShortCalls())
    panels.emplace(k, roundsOfPanels(), numbersOfPanels());
  else if (stagedRows)
    staged.emplace(k, warps * warpSize, stagedRows);
  if (attends)
    tile.emplace(k, inRegisters ? 0 : warps, /*spare=*/halo > 0,
                 WarpProduct::Stays::Columns, tiles, steps);
  if (inRegisters)
    memberSums = k.shared(
        k.b.getF32Type(),
        sumsTogether() * tokenWarps() * teams * tile->paddedGroup * memberPitch,
        {k.index(sumsTogether() * tile->paddedGroup * memberPitch),
         k.index(memberPitch)});
  if (walksApart()) {
    int64_t sums = (windows.size() - 1) * tiles * k.shape.group;
    waitingSums = k.shared(k.b.getF32Type(), tokenWarps() * sums * warpSize,
                           {k.index(sums * warpSize), k.index(warpSize)});
  }
  if (!projectedNorms.empty() && !panels)
    normSums = k.shared(k.b.getF32Type(), warps * WarpProduct::columns,
                        {k.index(WarpProduct::columns)});
  if (storesNorms()) {
    int64_t rows = tiles * k.shape.group;
    normsOfTiles = k.shared(k.b.getF32Type(), warps * rows * warpSize,
                            {k.index(rows * warpSize), k.index(warpSize)});
  }
  for (ReduceOp reduce : holdsRows ? ArrayRef<ReduceOp>() : rowHeads)
    rowHeadSums[reduce] =
        k.shared(k.b.getF32Type(), tokenWarps() * windowOf(reduce) * warpSize,
                 {k.index(windowOf(reduce) * warpSize), k.index(warpSize)});

  if (!tokenParts.empty())
    partsOfWarps = k.shared(k.b.getF32Type(), warps / mates * partNumbers(),
                            {k.index(partNumbers())});

  Expr sequence = k.block(gpu::Dimension::z);
  auto s = walksHeads() ? openSequence(k, sequence, yield)
                        : openHead(k, sequence, yield);
  takeEveryRow(k, s, kernel);
  clearBuffers(k, kernel, s.sequence);
  queries = readsAll ? s.length : k.index(fixedQueries);
  if (readsNew) {
    auto op = *kernel.getBody().getOps<NewQueriesOp>().begin();
    newQueries = evalScalar(k, s, op).min(k.arg("q_rows"));
    // One is read where there is none, and counts for nothing.
    queries = newQueries.max(k.index(std::max<int64_t>(fixedQueries, 1)))
                  .min(s.length)
                  .min(k.arg("q_rows"));
  }
  if (tile)
    tile->setQueries(queries, queriesMissing());
  if (tile && readsLogits)
    tile->storeProducts();
  if (holdsRows || keepsRows()) // there are no 2^31 heads
    tile->products().mixOnce((k.arg("kv_heads") >> 31).toI32());
  LogitTile *logits = tile ? &*tile : nullptr;
  if (keepsRows())
    return walkStretches(k, *tile, s);
  Expr some = takeTokens(k, s, k.block(gpu::Dimension::x));
  k.when(hasWork(k, s, kernel) & some, [&] { walkTokens(k, logits, s); });
}

void ColumnsBuilder::walkTokens(KernelBuilder &k, LogitTile *logits,
                                const SequenceScalars &s) {
  Expr token = tileStart + k.lane();
  Expr exists = token < s.past;
  if (halo)
    exists = exists & (k.lane() >= halo) & (k.lane() < warpSize - halo);
  Expr safeToken = inPast(k, s, token);
  if (halo)
    safeToken = safeToken.max(k.index(0));
  SmallVector<Expr> starts;
  for (ReduceOp reduce : columnHeads)
    starts.push_back(reductionStart(k, reduce.getKind()));
  if (holdsRows)
    starts.append(startHeld(k));
  if (fetchesKeys()) {
    Expr first = teams > 1 ? ownHead : k.index(0);
    starts.append(fetchKeys(k, *logits, s, first));
    if (fetchesQueries())
      fetchQueries(k, *logits, s, first);
  }
  meetPartners(k); // what is fetched is on its way
  Expr heads = walksHeads() ? k.arg("kv_heads") : Expr();
  auto head = [&](Expr kvHead, ArrayRef<Expr> carried) {
    return walksHeads() && k.shape.hasRows()
               ? runHeadAt(k, logits, s, kvHead, token, exists, carried)
               : runHead(k, logits, s, kvHead, safeToken, exists, carried);
  };
  if (k.shape.hasRows())
    startRowHeads(k);
  if (!walksHeads()) {
    head(k.block(gpu::Dimension::y), {});
    return;
  }
  Values sums = k.loop(0, heads, headsTogether(k), starts,
                       [&](Expr h, ArrayRef<Expr> carried) {
                         if (teams == 1)
                           return head(h, carried);
                         isForTeam = h + ownHead < heads;
                         return head((h + ownHead).min(heads - 1), carried);
                       });
  isForTeam = Expr();
  if (fetchesQueries())
    k.waitForCopies(0); // of the last head
  if (holdsRows) {
    held.assign(sums.begin() + columnHeads.size(),
                sums.begin() + columnHeads.size() + heldOfAll());
    sums.truncate(columnHeads.size());
  }
  runAllHeads(k, logits, s, heads, sums, safeToken, exists);
}

ColumnsBuilder::Values
ColumnsBuilder::runHeadAt(KernelBuilder &k, LogitTile *tile,
                          const SequenceScalars &s, Expr kvHead, Expr position,
                          Expr exists, ArrayRef<Expr> carried) {
  SequenceScalars own = narrowToHead(k, s, kvHead, yield);
  takeEveryRow(k, own, kernel);
  HeadRows rows(k, s.sequence, kvHead, s.length);
  Expr ofPositions = tileStart;
  positionsStart = tileStart;
  positionsPast = s.past;
  Values sums = k.choose(
      own.past > 0,
      [&] {
        Expr first = rows.firstAt(ofPositions + halo, k.index(0), own.past);
        Expr end = (first + warpSize).min(own.past);
        Expr row = rows.firstAt(position, first, end);
        Expr found = k.choose(
            exists & (row < end),
            [&] { return Values{rows.position(row) == position}; },
            [&] { return Values{k.boolean(false)}; })[0];
        tileStart = first - halo;
        hasRow = found;
        return runHead(k, tile, own, kvHead, row.min(own.past - 1), found,
                       carried);
      },
      [&] { return Values(carried.begin(), carried.end()); });
  tileStart = ofPositions;
  hasRow = Expr();
  return sums;
}

ColumnsBuilder::Values
ColumnsBuilder::runHead(KernelBuilder &k, LogitTile *tile,
                        const SequenceScalars &s, Expr kvHead, Expr token,
                        Expr exists, ArrayRef<Expr> carried) {
  finished.clear();
  finishedTiles.assign(tiles, Finished());
  Point point{kvHead, -1, {}, token};
  if (holdsRows) {
    ArrayRef<Expr> rest = carried.drop_front(columnHeads.size());
    held.assign(rest.begin(), rest.begin() + heldOfAll());
    keysAhead.assign(rest.begin() + heldOfAll(), rest.end());
  }
  carried = carried.take_front(columnHeads.size());
  if (tile)
    accumulateRows(k, *tile, s, point);
  for (ProjectedNormOp norm : projectedNorms)
    projectNorm(k, norm, s, point, [&](Expr column) {
      return clamp(k, tileStart + column, s.past);
    });
  Values next;
  auto finish = [&](int64_t number, const Point &at) {
    reduceChannels(k, s, at);
    LeafReader leaf = [&, this](Value value, const Point &p) {
      return readColumn(k, s, value, p);
    };
    PointEval eval(k, s, leaf, at);
    Expr there = number ? tileStart + k.lane() < s.past : exists;
    if (walksHeads())
      there = whereForTeam(there & isFirstMate(k));
    takeParts(k, eval, there);
    storeOutputs(k, s, eval, at, there, /*oneHead=*/false);
    // Who walks the heads has one tile.
    for (auto [reduce, sum] : llvm::zip(columnHeads, carried)) {
      Expr total = sum;
      forMembers(k, reduce.getValue(), [&](int j) {
        total =
            reductionStep(reduce.getKind(), total, eval(reduce.getValue(), j));
      });
      next.push_back(hasRow.valid() ? hasRow.select(total, sum) : total);
    }
  };
  auto finishTiles = [&] {
    forTiles(k, s, point, finish);
    reduceParts(k);
  };
  // Mates have the same sums.
  if (mates > 1 && !walksHeads())
    k.when(isFirstMate(k), finishTiles);
  else
    finishTiles();
  storeParts(k, s, point);
  next.append(held);
  next.append(keysAhead);
  return next;
}

void ColumnsBuilder::runAllHeads(KernelBuilder &k, LogitTile *tile,
                                 const SequenceScalars &s, Expr heads,
                                 ArrayRef<Expr> sums, Expr token, Expr exists) {
  finished.clear();
  auto finish = [&](ReduceOp reduce, Expr total) {
    bool perQuery = headsOf(reduce.getValue().getType()) == Axis::QueryHeads;
    Expr count = (heads * (perQuery ? k.shape.group : 1)).toFloat();
    return reductionEnd(reduce.getKind(), total, count);
  };
  for (auto [reduce, sum] : llvm::zip(columnHeads, sums))
    finished[{reduce, -1}] = finish(reduce, sum);
  Point point{k.shape.hasRows() ? Expr() : k.index(0), -1, {}, token};
  Values late;
  if (holdsRows)
    late = reduceHeld(k, *tile, s, point, finish);
  for (auto [i, reduce] : llvm::enumerate(lateWindows)) {
    int64_t window = windowOf(reduce);
    auto overRows = [&, reduce = reduce](Expr row, ArrayRef<Expr> carried) {
      LeafReader leaf = [&](Value value,
                            const Point &p) -> std::optional<Expr> {
        auto rows = value.getDefiningOp<ReduceOp>();
        if (rows && rowHeadSums.count(rows))
          return finish(
              rows, k.load(rowHeadSums[rows], {piece, row, columnOf(k, p)}));
        return readColumn(k, s, value, p);
      };
      PointEval eval(k, s, leaf, point);
      return Values{reductionStep(ReduceOp(reduce).getKind(), carried[0],
                                  eval(ReduceOp(reduce).getValue()))};
    };
    Expr total =
        holdsRows ? late[i]
                  : k.loop(0, window, 1, {reductionStart(k, reduce.getKind())},
                           overRows)[0];
    finished[{reduce, -1}] =
        reductionEnd(reduce.getKind(), total, k.f32(window));
  }
  LeafReader leaf = [&, this](Value value, const Point &p) {
    return readColumn(k, s, value, p);
  };
  PointEval eval(k, s, leaf, point);
  Expr mine = exists & isFirstMate(k);
  if (teams > 1)
    mine = mine & (ownHead == 0); // what others have is joined there
  storeOutputs(k, s, eval, point, mine, /*oneHead=*/true);
}
