//===- ColumnsPlan.cpp - how a columns kernel is launched -----------------===//

#include "codegen/kernels/Columns.h"

using namespace mlir;
using namespace kvc;

ColumnsBuilder::ColumnsBuilder(KernelOp kernel, const KernelSite &site)
    : kernel(kernel), site(site),
      yield(cast<YieldOp>(kernel.getBody().front().back())) {
  for (Operation &op : kernel.getBody().front()) {
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      attends = true;
      readsLse |= !attention.getLogits();
      readsLogits |= attention.getLogits();
      readsAll |= attention.readsAll() || attention.readsNew();
      readsNew |= attention.readsNew();
      fixedQueries = std::max(fixedQueries, constantOf(attention.getLast()));
    }
    if (auto norm = dyn_cast<ProjectedNormOp>(op))
      projectedNorms.push_back(norm);
    if (TokenParts::isPart(&op))
      tokenParts.emplace_back(&op);
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!reduce)
      continue;
    AxisList axes = axesOf(reduce.getValue().getType());
    bool oneHead = axes.front() == Axis::OneHead;
    if (isOverAllHeads(reduce))
      (axes.size() == 3 ? rowHeads : columnHeads).push_back(reduce);
    if (reduce.getAxis() == ReduceAxis::Queries)
      (oneHead ? lateWindows : windows).push_back(reduce);
  }
  for (Operation &op : kernel.getBody().front())
    for (Value result : op.getResults())
      halo = std::max(halo, pooledBehind(result).reach);
  planSharedMemory();
  if (site.warpgroups && hasQueryProducts())
    planWarpgroups();
}

bool ColumnsBuilder::computesNorms() const {
  return llvm::any_of(projectedNorms,
                      [](ProjectedNormOp norm) { return !norm.getBound(); });
}

bool ColumnsBuilder::storesNorms() const {
  // Of rows at the same position a lane's is in another lane's column.
  bool apart = walksHeads() && site.shape.hasRows();
  return computesNorms() || (apart && !projectedNorms.empty());
}

int64_t ColumnsBuilder::maxWarps() const {
  return staysLong() && tiles == 1 ? 2 * usualWarps : usualWarps;
}

int64_t ColumnsBuilder::bytesPerWarp() const {
  int64_t bytes = 0;
  if (attends)
    bytes += inRegisters ? 0 : steps * LogitTile::bytesPerWarp;
  bytes += projectedNorms.empty() ? 0 : WarpProduct::columns * 4;
  bytes += storesNorms() ? tiles * site.shape.group * warpSize * 4 : 0;
  return bytes;
}

int64_t ColumnsBuilder::bytesPerPiece() const {
  int64_t sums = inRegisters ? LogitTile::paddedGroupOf(site.shape) : 0;
  sums *= sumsTogether();
  int64_t rows = 0;
  for (ReduceOp reduce : rowHeads)
    rows += holdsRows ? 0 : windowOf(reduce);
  if (walksApart())
    rows += (windows.size() - 1) * tiles * site.shape.group;
  return (sums * memberPitch + rows * warpSize + partNumbers()) * 4;
}

void ColumnsBuilder::planSharedMemory(bool oneTile) {
  bool stages =
      StagedRows::suits(site.shape) && (attends || !projectedNorms.empty());
  // A lane holds the rows of all steps then: long keys, or columns that are reduced over
  // the heads as well, would leave a few registers too few.
  bool inTeams = stages && attends && site.shape.headDim <= 128 &&
                 columnHeads.empty() && canHoldRows(1);
  holdsRows = inTeams || (stages && attends && canHoldRows(2));
  inRegisters = holdsRows || (stages && attends && rowsArePointwise());
  tiles = stages && hasRegistersForTiles() && !oneTile ? 2 : 1;
  if (!stages) {
    warps = warpsThatFit(bytesPerWarp(), usualWarps);
    return;
  }
  if (planLaunchMemory())
    return;
  auto rowsOf = [&] {
    return StagedRows::rowsThatFit(site.shape,
                                   maxSharedBytes - warps * bytesPerWarp() -
                                       tokenWarps() * teams * bytesPerPiece());
  };
  // The products of one step run while those of another are waited for.
  warps = maxWarps();
  if (inTeams) {
    teams = 2;
    warps *= teams;
    if (rowsOf() < teams * WarpProduct::rows)
      warps /= teams, teams = 1;
  }
  if (teams == 1 && hasRowsForMates()) {
    mates = 2;
    warps *= mates;
    if (rowsOf() < mates * WarpProduct::rows)
      warps /= mates, mates = 1;
  }
  steps = attends && !inRegisters && hasWholePairs() ? 2 : 1;
  if (steps > 1 && rowsOf() < steps * WarpProduct::rows)
    steps = 1;
  for (;; warps /= 2) {
    stagedRows = rowsOf();
    if (stagedRows || warps == 1)
      break;
  }
  // A sum over heads has another order with more teams, and how many there are must not
  // depend on the longest sequence of a batch.
  dependsOnLength = teams > 1 &&
                    stagedRows >= teamsOfShort * WarpProduct::rows &&
                    hasParts(warps / teamsOfShort * tokensPerWarp()) &&
                    llvm::all_of(rowHeads, [](ReduceOp reduce) {
                      return reduce.getKind() == ReduceKind::Max ||
                             reduce.getKind() == ReduceKind::Min;
                    });
  if (isForShortCalls())
    planShortCalls();
  else if (dependsOnLength)
    warps /= teams, teams = 1;
  assert((stagedRows || !inRegisters) && "sums of members and a stage fit");
  // Sums that wait for another walk leave room for few warps.
  if (tiles > 1 && (!hasWholeParts() || fillsAnSM())) {
    mates = 1;
    planSharedMemory(/*oneTile=*/true);
  }
}

/// More teams, each of which has a smaller part of a round: where what a launch gives has room
/// for it, rounds are of twice as many rows, so that copies are waited for half as often.
void ColumnsBuilder::planShortCalls() {
  teams = teamsOfShort;
  partners = site.warpgroups ? partnersOfShort : 1;
  if (StagedRows::bytesFor(site.shape, 2 * stagedRows) +
          warps * bytesPerWarp() + tokenWarps() * teams * bytesPerPiece() +
          bytesOfPartners() <=
      maxLaunchBytes)
    stagedRows *= 2;
}

/// A window with more rows than a block's own memory has room for has what a launch gives,
/// in blocks of eight warps with a tile each, of which two fill an SM. Chooses them, where
/// the rows fit.
bool ColumnsBuilder::planLaunchMemory() {
  if (!readsOneWindow() || !projectedNorms.empty() || !hasFewRegisters() ||
      rowsOfWindow() <= 2 * StagedRows::mostRows)
    return false;
  int64_t many = 2 * usualWarps;
  if (StagedRows::bytesFor(site.shape, rowsOfWindow() / 2) +
          many * bytesPerPiece() >
      maxLaunchBytes)
    return false;
  tiles = 1;
  warps = many;
  stagedRows = rowsOfWindow() / 2;
  return true;
}

/// True where an SM has room for 16 warps with one tile each, whose rows stay: four blocks of
/// four, or two of eight where memory is short (planLaunchMemory). Twice the warps are worth
/// more than half the reads of rows: on an H200 36 us for 39 at 32K, 114 for 125 at 128K.
/// Twelve are not, 46 and 157.
bool ColumnsBuilder::fillsAnSM() const {
  return keepsRows() && hasFewRegisters();
}

/// True where 128 registers are enough for a thread with one tile, of which keys of 128
/// elements are 64, and what other kernels have of each token some more.
bool ColumnsBuilder::hasFewRegisters() const {
  const Shape &shape = site.shape;
  return shape.headDim > 64 && shape.headDim <= 128 && !shape.hasRows() &&
         LogitTile::paddedGroupOf(shape) == shape.group &&
         llvm::none_of(kernel->getOperandTypes(), [](Type type) {
           return llvm::is_contained(axesOf(type), Axis::Past);
         });
}

/// Two tiles of keys or values are 128 registers of 255 where rows have 128 elements.
/// Beside them there is room for one sum of each column and a step's products, but not
/// for where a cache's rows lie, nor for a second tile's worth of results.
bool ColumnsBuilder::hasRegistersForTiles() const {
  if (site.shape.headDim > 128 || site.shape.hasRows() || halo || walksHeads())
    return false;
  // Rows that are only padding, and a last part of keys that is no whole one, take some.
  bool even = LogitTile::paddedGroupOf(site.shape) == site.shape.group &&
              site.shape.headDim % 32 == 0;
  // Two reductions of one window have twice as many sums; of two, steps with guards beside,
  // unless those of smaller windows have walks of their own.
  bool fewSums = windows.size() == 1;
  if (windows.size() == 2 && !readsAll)
    fewSums = llvm::all_equal(llvm::map_range(windows, windowOf));
  else if (windows.size() > 1 && readsAll && !readsNew)
    fewSums = llvm::count_if(windows, [&](ReduceOp reduce) {
                return !isSmaller(windowOf(reduce));
              }) == 1;
  if (attends)
    return inRegisters && projectedNorms.empty() && fewSums &&
           (even || site.shape.headDim <= 96);
  return projectedNorms.size() == 1 &&
         !ProjectedNormOp(projectedNorms[0]).getBound();
}

/// All queries are rows enough to be worth a second set of keys in registers: with mates an
/// SM is full where it has one block.
bool ColumnsBuilder::hasRowsForMates() const {
  return holdsRows ? canHoldRows(2) : readsAll && inRegisters && tiles > 1;
}

/// True where the rows of a window are a whole number of two steps. Where rows are pooled,
/// it is not the wait for products that takes the time.
bool ColumnsBuilder::hasWholePairs() const {
  int64_t rows = fixedQueries * LogitTile::paddedGroupOf(site.shape);
  return !readsAll && !halo && rows % (2 * WarpProduct::rows) == 0;
}

LaunchSpec ColumnsBuilder::launch() {
  LaunchSpec spec = bodyLaunch(kernel, site);
  addOwnArgs(kernel, site.shape, spec.args);
  spec.blockSize = warps * warpSize;
  int64_t tokens = tokenWarps() * tokensPerWarp();
  if (dependsOnLength)
    (site.ofShortCalls ? spec.upToTokens : spec.aboveTokens) = longestOfShort;
  std::string blocks = "ceildiv(tokens," + std::to_string(tokens) + ")";
  if (isForShortCalls()) // as many as its blocks' tokens, for a form with partners
    blocks = std::to_string(partnersOfShort) + "*min(" + blocks + "," +
             std::to_string(longestOfPartners / tokens) + ")";
  if (keepsRows())
    blocks = "min(" + blocks + ",ceildiv(" + std::to_string(mostBlocks()) +
             ",kv_heads))";
  spec.grid = {blocks, walksHeads() ? "1" : "kv_heads", "batch"};
  return spec;
}
