//===- Columns.h - what is parallel over past tokens ----------------------===//
//
// grid (ceildiv(T, 256), Hkv, batch), 4 warps with two tiles of 32 tokens each, so that a
// row is read from shared memory once for 64 tokens; with one tile each where four blocks
// fit into an SM then. Over all queries 8 warps, two for the same tokens, which take turns
// at steps of rows: mates (ColumnsMates.cpp, which also says which tokens a block has).
// Where registers do not suffice for two tiles, a warp has one: 128 tokens a block, or,
// where all queries or norms behind the projection are computed, 8 warps with 256. Fewer
// warps where shared memory does not suffice. Where rows are pooled, the tiles of
// neighbouring warps overlap by the pool's reach. Where a window's rows stay in shared
// memory, no more than 264 blocks for all heads, or 528 of one tile a warp, which have one
// stretch of tokens behind the other (ColumnsStretches.cpp); where that takes what a launch
// gives, 264 of 8 warps with one tile. With a reduction over all heads the warp walks the
// heads itself: grid (.., 1, batch), in a cache of rows over true positions, else with teams
// or mates where rows fit into registers (ColumnsHeads.cpp, ColumnsTeams.cpp); of a short past
// two blocks of a cluster share them out (ColumnsClusters.cpp).
//
//   for each stretch of tokens, for each KV head:
//     for each stage of 16 to 64 query rows (all queries: from the block's first
//     token on, since older ones do not see it), copied ahead by the block, or for
//     a window's rows, copied once a block where both stages have room for them:
//       for each step of 16 rows:          a warp's products with its tokens, then
//         rows that ask for one point      the policy's formula at each product,
//                                          added up in registers
//         others                           logits through the warp's part of
//                                          shared memory, lane = token
//     rows without a step count once, with weights of 0
//     for each stage of outputs of the projection: norms behind it
//     norms and reductions over channels: rows over lanes, read whole (LaneRows.h)
//     the rest of the formula on the accumulated columns, lane = token; store
//   what has one row for all heads; store
//
// Shared memory: two stages (StagedRows.h), and by warp a logit tile or, once for mates,
// the sums of the group's members, by team where teams take turns at heads; one barrier a
// stage, three where mates add up a sum.
// fp32 has no stages: each warp reads the rows for itself, and no barrier stands anywhere.
// Reads K once per KV head (and V,
// if the policy does), queries and projection once a block; writes only what other
// kernels read. What is reduced over tokens takes one barrier more (ColumnsParts.cpp), for
// each head where heads are walked, and of fp32 two.
// The order of each sum is fixed by the shape.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_COLUMNS_H
#define KVC_CODEGEN_KERNELS_COLUMNS_H

#include "codegen/kernels/ColumnsSums.h"
#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/LaneRows.h"
#include "codegen/kernels/LogitTile.h"
#include "codegen/kernels/PanelRows.h"
#include "codegen/kernels/TokenParts.h"

namespace kvc {

/// In several files: Columns.cpp has what the others call, ColumnsPlan.cpp the launch and
/// what fits, ColumnsMates.cpp which warp has which tokens, ColumnsStretches.cpp how many a block has one behind the other,
/// ColumnsWalk.cpp the walk, ColumnsRows.cpp attention rows,
/// ColumnsLeftOut.cpp those that see nothing, ColumnsProducts.cpp those that stay in
/// registers, ColumnsMembers.cpp their sums by member of the group, ColumnsHeads.cpp
/// those that are reduced over all heads there, ColumnsTeams.cpp which warps have which
/// heads, ColumnsClusters.cpp which blocks, ColumnsNorms.cpp norms behind the output
/// projection, ColumnsChannels.cpp what is reduced over channels, ColumnsParts.cpp what is over tokens, ColumnsWarpgroups.cpp,
/// ColumnsWarpgroupNorms.cpp, ColumnsWarpgroupWindows.cpp and ColumnsWarpgroupHeads.cpp
/// products of four warps together.
class ColumnsBuilder {
public:
  using Values = KernelBuilder::Values;

  ColumnsBuilder(KernelOp kernel, const KernelSite &site);

  void build();
  /// Whether there is a form that multiplies by warpgroups.
  bool hasWarpgroupForm() const;
  /// Whether short calls have a form of their own.
  bool hasFormOfShortCalls() const { return dependsOnLength; }

private:
  static constexpr int64_t usualWarps = 4;
  /// Where what is staged is much more than the block's own tokens, more of these share
  /// it.
  bool staysLong() const { return readsAll || !projectedNorms.empty(); }
  int64_t maxWarps() const;
  /// How many warps of the block have the same tokens and take turns at steps of rows:
  /// mates, each with sums of its own, which are added up behind the walk.
  int64_t mates = 1;
  /// How many teams of warps have the same tokens and take turns at heads
  /// (ColumnsTeams.cpp); with several of them nobody has mates.
  int64_t teams = 1;
  /// Orders the memory of the warp's team: the block, where there is one.
  void teamBarrier(KernelBuilder &k) const {
    teams > 1 ? k.teamBarrier(warps / teams * warpSize) : k.barrier();
  }
  /// Of a short call blocks have fewer tokens and more teams, so that more SMs have one,
  /// and of others one team.
  bool dependsOnLength = false;
  static constexpr int64_t teamsOfShort = 4, longestOfShort = 8192;
  /// How many blocks of a cluster have the same tokens and take turns at heads as well
  /// (ColumnsClusters.cpp); whether they do, which depends on the past, and which one this is.
  int64_t partners = 1;
  static constexpr int64_t partnersOfShort = 2,
                           longestOfPartners = longestOfShort / partnersOfShort;
  Expr isPartner, partner;
  bool isForShortCalls() const { return dependsOnLength && site.ofShortCalls; }
  /// Sets them, of a block of the launch. Which of the blocks with tokens of their own it is.
  Expr takePartner(KernelBuilder &k, const SequenceScalars &s, Expr block);
  void meetPartners(KernelBuilder &k) const;
  /// How many heads are walked together, and which of them the warp has.
  Expr headsTogether(KernelBuilder &k) const;
  Expr ownHead;
  int64_t bytesOfPartners() const;
  /// What reduceHeld gets of all partners, in the first one.
  void joinPartners(KernelBuilder &k, llvm::ArrayRef<ReduceKind> kinds,
                    Values &ofBlock, int64_t lanes);
  int64_t tokenWarps() const { return warps / mates / teams; }
  bool hasRowsForMates() const;
  /// Which of the block's pieces of tokens the warp has, which of its mates it is, and
  /// of which team.
  Expr piece, mate, team;
  /// Where the warp's sums are in memberSums: mates have one place, teams one each.
  Expr placeOfSums(KernelBuilder &k) const;
  /// Whether the running head is one for the warp's team; not valid: it is.
  Expr isForTeam;
  Expr whereForTeam(Expr condition) const;
  /// What the teams have each of rows that are reduced over heads, for the first team:
  /// numbers of a lane, `lanes` beside each other having the same.
  Values joinTeams(KernelBuilder &k, llvm::ArrayRef<ReduceKind> kinds,
                   llvm::ArrayRef<Expr> ofTeam, int64_t lanes);
  Expr isFirstMate(KernelBuilder &k) const;
  /// The longest past whose blocks have tokens from both ends of it.
  static constexpr int64_t longestFolded = 16384;
  /// Where both halves of a block's pieces begin, of mates over all queries.
  Expr halfStarts[2];
  /// Sets `piece`, `mate`, `tileStart`, `blockStart` and `halfStarts` of the block that would have this
  /// number. False where it has no tokens.
  Expr takeTokens(KernelBuilder &k, const SequenceScalars &s, Expr block);
  int64_t rowsOfWindow() const {
    return fixedQueries * LogitTile::paddedGroupOf(site.shape);
  }
  /// True where all rows are a window's; where shared memory has room for all of them; and
  /// where they stay there while a block has one stretch of tokens behind the other
  /// (ColumnsStretches.cpp): so many blocks are enough for all heads.
  bool readsOneWindow() const;
  bool rowsFitAtOnce() const;
  bool keepsRows() const;
  int64_t mostBlocks() const { return 132 * (fillsAnSM() ? blocksOfSM() : 2); }
  /// True where blocks of one tile a warp fill an SM, and how many then do.
  bool fillsAnSM() const;
  int64_t blocksOfSM() const { return warps > usualWarps ? 2 : 4; }
  bool hasFewRegisters() const;
  /// True where an SM has room for two blocks, each with all registers for its threads.
  bool fitsTwice() const { return dependsOnLength && !site.ofShortCalls; }
  void walkStretches(KernelBuilder &k, LogitTile &tile,
                     const SequenceScalars &s);
  /// How many tiles of 32 tokens a warp has.
  int64_t tiles = 1;
  bool hasRegistersForTiles() const;
  /// How many steps of 16 rows have their logits in shared memory together.
  int64_t steps = 1;
  bool hasWholePairs() const;

  /// Shared memory that a warp needs for itself, and mates for all of them.
  int64_t bytesPerWarp() const;
  int64_t bytesPerPiece() const;
  /// Chooses as many warps as fit, and then rows of a stage.
  void planSharedMemory(bool oneTile = false);
  bool planLaunchMemory();
  void planShortCalls();

  KernelOp kernel;
  const KernelSite &site;
  YieldOp yield;
  /// The largest window, unless all queries are read.
  int64_t fixedQueries = 0, warps = usualWarps;
  bool attends = false, readsLse = false, readsLogits = false;
  /// As many queries are read as the launch says: all, or the new ones.
  bool readsAll = false, readsNew = false;
  /// Tokens at either end of a warp's tile that only its neighbours store.
  int64_t halo = 0;
  int64_t tokensPerWarp() const { return tiles * warpSize - 2 * halo; }
  /// First token of the warp's first tile, or of the one that is finished; below 0 in
  /// front of the sequence. Of the block's first one.
  Expr tileStart, blockStart;
  /// Rows that all warps multiply pass through shared memory, so many at a time;
  /// 0: each warp reads them for itself.
  int64_t stagedRows = 0;
  std::optional<StagedRows> staged;
  /// Where warpgroups multiply, in the place of `staged`.
  std::optional<PanelRows> panels;
  int64_t roundRows() const { return panels ? PanelRows::rows : stagedRows; }
  /// Which products there are such forms of: of all queries (ColumnsWarpgroups.cpp), of an
  /// output projection (ColumnsWarpgroupNorms.cpp), of a window whose rows stay
  /// (ColumnsWarpgroupWindows.cpp), of a window whose rows are reduced over all heads
  /// (ColumnsWarpgroupHeads.cpp).
  bool hasQueryProducts() const;
  bool hasDenseNorms() const;
  bool hasWindowProducts() const;
  bool hasHeadProducts() const;
  /// A warpgroup has twice 64 tokens, a warp twice 16; of all queries there are twice as
  /// many warpgroups, and each has 64 tokens of one half of the block.
  static constexpr int64_t halves = 2;
  int64_t halvesOfWarp() const { return readsAll ? 1 : halves; }
  void planWarpgroups();
  Expr warpgroup(KernelBuilder &k) const { return k.warp() / 4; }
  /// Of all queries, those with tokens of the block's younger half.
  Expr isYoung(KernelBuilder &k) const { return warpgroup(k) >= halves; }
  int64_t warpgroups() const { return warps / 4; }
  /// Rounds of rows that are in shared memory together: two, all of a window, or of all
  /// queries two of each of two steps, whose numbers stay for a step more.
  int64_t roundsOfPanels() const;
  int64_t numbersOfPanels() const;
  /// 16 of the cache's rows from `first` on, as PanelRows multiplies them.
  Values columnFragment(KernelBuilder &k, const SequenceScalars &s, Expr kvHead,
                        CacheSide side, Expr first);
  /// Of a window, the first of the 16 tokens that a warp has in a half of its warpgroup's,
  /// and a head's keys of these, as PanelRows multiplies them.
  Expr startOfHalf(KernelBuilder &k, int64_t half) const;
  Values keysOfHalf(KernelBuilder &k, const SequenceScalars &s, Expr kvHead,
                    int64_t half);
  /// Of the lane's columns in a half, the first one or the one 8 below: which piece of the
  /// block's tokens it is in, and where.
  std::pair<Expr, Expr> placeOfColumn(KernelBuilder &k, int64_t half,
                                      int64_t below) const;
  /// The window's rows, which stay while the block has stretches.
  void copyWindow(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s);
  /// accumulateProducts of warpgroups.
  Values accumulateWindow(KernelBuilder &k, LogitTile &tile,
                          const SequenceScalars &s, const Point &point);
  Values accumulateTogether(KernelBuilder &k, LogitTile &tile,
                            const SequenceScalars &s, const Point &point,
                            const RowSource &source, Expr begin);
  /// Rounds of rows from `start` to `end`, so many rows together, of which the warpgroup
  /// multiplies the round that begins `ahead` behind the first with the tokens from
  /// `columns` on, 16 a warp. Rounds with numbers below `own` count for nothing; not valid:
  /// there are none.
  struct RoundWalk {
    Expr start, end, together, ahead, columns, own;
  };
  Values walkRounds(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
                    const Point &point, const RowSource &source,
                    Expr turnOfCopies, const RoundWalk &walk, Values starts);
  /// What the warpgroups of the younger half have summed for the older one goes to those
  /// of that one; they begin anew.
  Values handOver(KernelBuilder &k, LogitTile &tile, llvm::ArrayRef<Expr> sums);
  /// The first step of queries that see a token from `start` on, of which a round begins.
  Expr firstRound(KernelBuilder &k, const LogitTile &tile,
                  const SequenceScalars &s, Expr start) const;
  /// What is reduced over queries is evaluated at each product of a lane and
  /// added up in registers; else logits go through shared memory, and a lane has
  /// a token.
  bool inRegisters = false;
  bool rowsArePointwise() const;
  /// True where each asks for one product, of a query head of its own.
  static bool arePointwise(llvm::ArrayRef<ReduceOp> reduces);
  /// Sums of the group's members by token, [piece][reduction][member][32]: of one at a
  /// time, but where mates add up those of each head. Lanes of a quad put every second
  /// member there: eight tokens of each, in banks of their own.
  Buffer memberSums;
  static constexpr int64_t memberPitch = warpSize + 4;
  int64_t sumsTogether() const;
  /// How many queries are read, and how many of them are new.
  Expr queries, newQueries;
  /// Reductions over the window: inside a head, and after all heads.
  llvm::SmallVector<ReduceOp> windows, lateWindows;
  /// Reductions over all heads: of rows (kept in shared memory, or, where `holdsRows`, in
  /// registers), of columns.
  llvm::SmallVector<ReduceOp> rowHeads, columnHeads;
  llvm::SmallVector<ProjectedNormOp> projectedNorms;
  Buffer normSums;
  /// Norms of each tile's columns, [warp][tile][member][32]; none where all are bounds,
  /// and each of the lane's own column.
  Buffer normsOfTiles;
  bool computesNorms() const;
  bool storesNorms() const;
  llvm::DenseMap<mlir::Operation *, Buffer> rowHeadSums;
  using Finished = llvm::DenseMap<std::pair<mlir::Operation *, int>, Expr>;
  /// What a lane has at its tokens, by tile; of the tile whose columns are computed.
  llvm::SmallVector<Finished, 2> finishedTiles;
  Finished finished;

  /// What lanes make of a tile's vectors together, and at which point a lane has it.
  std::optional<LaneWalk> lanes;
  llvm::DenseMap<std::pair<mlir::Operation *, int>, Expr> ofChannels;
  Point channelsPoint;

  bool walksHeads() const { return !rowHeads.empty() || !columnHeads.empty(); }
  /// In a cache of rows, a warp that walks the heads has 32 positions and not 32
  /// rows: of these each head has at most 32, beside each other. True for lanes
  /// whose position the running head has a row of; not valid anywhere else.
  Expr hasRow;
  /// The warp's first position, and where those of the past end.
  Expr positionsStart, positionsPast;

  LaunchSpec launch();

  /// Where it is known which of the window's rows are whose, lanes hold the rows that are
  /// reduced over all heads at their products, and teams walk the heads, or mates do so
  /// together (ColumnsHeads.cpp).
  bool holdsRows = false;
  bool canHoldRows(int64_t mates) const;
  /// By reduction, step of the window, query of the lane and slot.
  Values held;
  /// How many numbers of them a reduction has, and all have.
  int64_t heldOf(ReduceOp reduce) const;
  int64_t heldOfAll() const;
  /// Of the head that is next: its first queries are on their way from the last round of
  /// queries on, its keys behind the last product, while sums are exchanged and stored. Of
  /// the last head it is that head again.
  Values keysAhead;
  bool fetchesKeys() const { return holdsRows && site.shape.headDim <= 128; }
  bool fetchesQueries() const;
  Values fetchKeys(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
                   Expr kvHead);
  void fetchQueries(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
                    Expr kvHead);
  Values startHeld(KernelBuilder &k);
  /// How many of a step's queries a lane has products of.
  int64_t queriesOfLane() const;
  /// Whether the warp's step of this number has rows of a window, and how many steps have.
  bool isInStep(int64_t step, int64_t window) const;
  int64_t stepsOf(int64_t window) const;
  /// Adds a product to the rows of all heads.
  void holdProduct(int64_t step, const WarpProduct::Product &product,
                   PointEval &eval);
  Values accumulateHead(KernelBuilder &k, LogitTile &tile,
                        const SequenceScalars &s, const Point &point,
                        const RowSource &source);
  /// The same of a warpgroup. Of keys it has both halves' `keysAhead`, and of queries two
  /// rounds.
  Values accumulateHeadTogether(KernelBuilder &k, LogitTile &tile,
                                const SequenceScalars &s, const Point &point);
  void copyFirstRounds(KernelBuilder &k, LogitTile &tile,
                       const SequenceScalars &s, Expr kvHead);
  /// What each of lateWindows is at the lane's token, before its end; finish(reduction,
  /// row) is the end of a row.
  using Finish = llvm::function_ref<Expr(ReduceOp, Expr)>;
  Values reduceHeld(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
                    const Point &point, Finish finish);
  /// Where a lane puts what it holds of a slot: piece and column.
  std::pair<Expr, Expr> placeOfHeld(KernelBuilder &k, LogitTile &tile,
                                    int slot);

  void run(KernelBuilder &k);
  /// What the warps of a block do with their tokens.
  void walkTokens(KernelBuilder &k, LogitTile *tile, const SequenceScalars &s);

  /// Rows of a value; 0 where they are those of all queries, or of the new ones.
  static int64_t windowOf(ReduceOp reduce);
  /// The same number, whatever they are those of.
  Expr extentOf(KernelBuilder &k, int64_t window) const {
    return window ? k.index(window) : readsNew ? newQueries : queries;
  }

  /// One KV head: rows to columns, columns to outputs. Returns the carried sums
  /// over heads.
  Values runHead(KernelBuilder &k, LogitTile *tile, const SequenceScalars &s,
                 Expr kvHead, Expr token, Expr exists,
                 llvm::ArrayRef<Expr> carried);

  /// The column of the warp's tile that has a token. A pool asks for
  /// neighbours; what lies behind the tile's ends is asked for by lanes whose
  /// result nobody stores.
  Expr columnOf(KernelBuilder &k, const Point &p) const;

  /// The token, or, behind the past, one of it.
  Expr inPast(KernelBuilder &k, const SequenceScalars &s, Expr token) const;
  static Expr clamp(KernelBuilder &k, Expr i, Expr count) {
    return i.max(k.index(0)).min(count - 1);
  }

  static void forMembers(KernelBuilder &k, mlir::Value value,
                         llvm::function_ref<void(int)> body);

  /// Rows of a reduction that the walk leaves out, if it leaves out `skipped`
  /// rows in front: those, and queries in front of a short sequence.
  Expr rowsLeftOut(KernelBuilder &k, ReduceOp reduce, Expr skipped);

  /// Counts rows that are left out: all their weights are 0, so they are alike.
  Values startRows(KernelBuilder &k, const SequenceScalars &s, Point point,
                   Expr skipped,
                   llvm::ArrayRef<std::pair<ReduceOp, int>> slots);

  /// All query rows, and with each its log-sum-exp where that is read.
  RowSource stagedQueries(KernelBuilder &k, LogitTile &tile,
                          const SequenceScalars &s);

  using Slots = llvm::ArrayRef<std::pair<ReduceOp, int>>;
  /// True where each reduction over queries has a walk of its own, so that registers
  /// suffice for several tiles: those over smaller windows, which are short, first.
  bool walksApart() const;
  /// Of these, the running one has the last queries alone.
  bool walksLastQueries() const;
  llvm::SmallVector<llvm::SmallVector<ReduceOp>> walksOfProducts() const;
  /// The reductions of the running walk, and what those behind it have made, [piece][..][32].
  llvm::SmallVector<ReduceOp> walked;
  Buffer waitingSums;
  /// Reductions over queries whose products stay in registers: the block walks from step
  /// `from` on, and the warp, where it has mates, is there from step `own` on.
  /// startsAt(point, first step, which) is what rows in front of that step make of them.
  void
  sumProducts(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
              const Point &point, Expr from, Expr own,
              llvm::function_ref<Values(const Point &, Expr, Slots)> startsAt);
  /// Accumulators in registers: one per window reduction, column of the lane and
  /// member of the group that a lane has.
  Values startProducts(KernelBuilder &k);
  Values accumulateProducts(KernelBuilder &k, LogitTile &tile,
                            const SequenceScalars &s, const Point &point,
                            const RowSource &source, Expr from);
  /// `whole`: all its rows exist, see all tokens, and are in no smaller window; or the
  /// step's number is `known`, and with it which windows they are in.
  Values addProducts(KernelBuilder &k, LogitTile &tile,
                     const SequenceScalars &s, const Point &point, Expr step,
                     Expr place, llvm::ArrayRef<Expr> sums, bool whole,
                     std::optional<int64_t> known = std::nullopt);
  void addProduct(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
                  const Point &point, AddingProducts &adding,
                  const WarpProduct::Product &product, Values &sums);
  /// Where `mine`, puts sums into memberSums, all in one piece of code; what is there
  /// already, of an earlier mate, they are reduced with.
  void putSums(KernelBuilder &k, llvm::ArrayRef<PlacedSum> sums, bool first,
               Expr mine);
  /// Where sums of warpgroups go, of a reduction, the number `walk` of those that run: of all
  /// tiles. rowOf(member) is a row of memberSums.
  llvm::SmallVector<PlacedSum>
  placeTogether(KernelBuilder &k, LogitTile &tile, size_t walk,
                llvm::ArrayRef<Expr> sums,
                llvm::function_ref<Expr(Expr)> rowOf);
  /// By window reduction and member: sums of the lane's token in tile `number`, of all
  /// mates.
  Values sumsOfMembers(KernelBuilder &k, LogitTile &tile, int64_t number,
                       llvm::ArrayRef<Expr> sums);
  /// Sums become what the reductions of the window are at a tile's tokens.
  void finishRows(KernelBuilder &k, int64_t tile,
                  llvm::ArrayRef<std::pair<ReduceOp, int>> slots,
                  llvm::ArrayRef<Expr> sums);
  /// True for windows that not all rows of the walk are in.
  bool isSmaller(int64_t window) const {
    return window ? readsAll || window < fixedQueries : isMixed();
  }
  /// True where a window is read beside the new queries, which may be fewer.
  bool isMixed() const { return readsNew && fixedQueries; }

  /// What a query makes of a sum over a window: nothing, where it is in front of
  /// a smaller window, or, in `partial` steps, only pads them.
  Expr guarded(KernelBuilder &k, Expr query, int64_t window, bool partial,
               Expr old, Expr updated);

  /// Accumulators: one per window reduction and member of the group.
  void accumulateRows(KernelBuilder &k, LogitTile &tile,
                      const SequenceScalars &s, Point point);

  /// Norms of the tiles' values behind the output projection, head by head of the
  /// group: products leave the registers as sums only. `tokenOf` gives a
  /// column's token.
  void projectNorm(KernelBuilder &k, ProjectedNormOp op,
                   const SequenceScalars &s, const Point &point,
                   llvm::function_ref<Expr(Expr)> tokenOf);
  /// Calls body(number, point) for each tile, tileStart and `finished` being its, from
  /// the lane's point in the first.
  void forTiles(KernelBuilder &k, const SequenceScalars &s, const Point &point,
                llvm::function_ref<void(int64_t, const Point &)> body);
  /// All members' norms, to `normsOfTiles`.
  void storeNorms(KernelBuilder &k, ProjectedNormOp op,
                  const SequenceScalars &s, const Point &point,
                  WarpProduct &product);
  /// The same of a warpgroup.
  void storeNormsTogether(KernelBuilder &k, ProjectedNormOp op,
                          const SequenceScalars &s, const Point &point);
  void storeBounds(KernelBuilder &k, llvm::ArrayRef<Expr> bounds);
  KernelBuilder::Values boundNorms(KernelBuilder &k, ProjectedNormOp op,
                                   const SequenceScalars &s, const Point &own,
                                   WarpProduct &product,
                                   llvm::function_ref<Expr(Expr)> tokenOf);

  /// Norms and reductions over channels at the lane's token, which the warp makes
  /// together: those of them that ask for nothing that a lane has of its own token
  /// alone.
  void reduceChannels(KernelBuilder &k, const SequenceScalars &s,
                      const Point &point);
  std::optional<Expr> readChannels(mlir::Value value, const Point &p) const;

  /// Of rows of means over neighbours that are only compared: the pool. To divide by a
  /// number of neighbours keeps an order, so it is done once, behind all rows.
  static PoolOp dividedBehind(ReduceOp reduce);
  /// What is reduced at a point.
  static Expr reducedAt(PointEval &eval, ReduceOp reduce, int member);

  /// The largest of these windows that is smaller than all queries; 0: none is.
  int64_t smallerWindow(llvm::ArrayRef<ReduceOp> reduces) const;
  /// The last token of the warp's tiles, and its position where it has one.
  Expr newestToken() const;
  Expr newestPosition(KernelBuilder &k, const SequenceScalars &s,
                      const Point &point) const;
  /// True where all rows [first, end) see a token at `newest`, and are in front of a
  /// window of `smaller` queries.
  Expr allSee(const LogitTile &tile, const SequenceScalars &s, Expr newest,
              int64_t smaller, Expr first, Expr end) const;
  /// Walks the staged queries: body(first row, its place, carried, `whole`), `whole` as
  /// in addProducts, and where rows are pooled all neighbours are in the past, too.
  Values walkQueries(
      KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
      const Point &point, Expr from, llvm::ArrayRef<Expr> starts,
      const RowSource &source,
      llvm::function_ref<Values(Expr, Expr, llvm::ArrayRef<Expr>, bool)> body);
  /// Adds one query's row of each value that is reduced over queries.
  void accumulateQuery(KernelBuilder &k, LogitTile &tile,
                       const SequenceScalars &sequence, Point point, Expr step,
                       int64_t local,
                       llvm::ArrayRef<std::pair<ReduceOp, int>> slots,
                       Values &sums, bool whole);

  /// Sets the rows that are reduced over all heads to where a reduction starts: the
  /// first head may have none of the positions.
  void startRowHeads(KernelBuilder &k);
  /// Adds one head's values to a row that is reduced over all heads; `guarded`
  /// chooses between the old sum and the updated one.
  void addToRow(KernelBuilder &k, ReduceOp reduce, const Point &point, Expr row,
                llvm::ArrayRef<Expr> values,
                llvm::function_ref<Expr(Expr, Expr)> guarded = nullptr);

  /// Who reads all queries hands over as many as there are tokens, which may be
  /// fewer than this kernel's window. Those in front have weight and logit 0.
  bool queriesMissing();

  /// Where all logits of a tile are for weights, these are stored, once for all lanes
  /// that read them: of a pool each by all its neighbours.
  bool storesWeights() const { return readsLse && !readsLogits; }

  /// A tile's logits and the scale of products are those of powers of two: times
  /// this they are natural.
  static constexpr double logitsInBase2 = 0.6931471805599453;
  /// True where a query of this number sees the token at a position: causality,
  /// compared in 32 bits, with what is the same for all queries on one side.
  Expr sees(const SequenceScalars &s, Expr query, Expr position) const;
  /// A logit as the op has it: 0 for queries in front of a sequence that is shorter
  /// than the window, whatever the keys.
  Expr finishLogit(KernelBuilder &k, const SequenceScalars &s, Expr query,
                   Expr logit);
  /// A weight as the op has it: 0 for what is not seen, rounded if it is so.
  Expr finishWeight(KernelBuilder &k, AttentionOp op, Expr weight);
  /// exp(logit - lse), 0 for tokens behind the query; or the logit itself.
  Expr weight(KernelBuilder &k, LogitTile &tile, const SequenceScalars &s,
              const Point &p, AttentionOp op, Expr query, int64_t local,
              bool whole);

  std::optional<Expr> readColumn(KernelBuilder &k, const SequenceScalars &s,
                                 mlir::Value value, const Point &p);

  /// The same for the rows that a head has of the warp's positions.
  Values runHeadAt(KernelBuilder &k, LogitTile *tile, const SequenceScalars &s,
                   Expr kvHead, Expr position, Expr exists,
                   llvm::ArrayRef<Expr> carried);

  /// What has one row for all heads, once every head is done.
  void runAllHeads(KernelBuilder &k, LogitTile *tile, const SequenceScalars &s,
                   Expr heads, llvm::ArrayRef<Expr> sums, Expr token,
                   Expr exists);

  /// Reductions over tokens, of which the kernel has the parts: what each member has at
  /// the lane's tokens, by op; what each warp makes of it, [piece][number]; and that of
  /// warps with a part's tokens together, which is stored. Which of the lane's tokens
  /// there are.
  llvm::SmallVector<TokenParts> tokenParts;
  llvm::SmallVector<llvm::SmallVector<Values>> partsOfLane;
  Values existOfLane;
  Buffer partsOfWarps;
  int64_t membersOf(const TokenParts &parts) const;
  int64_t partNumbers() const;
  bool hasWholeParts() const;
  /// True where so many tokens are a part of each at least.
  bool hasParts(int64_t tokens) const;
  void takeParts(KernelBuilder &k, PointEval &eval, Expr exists);
  void reduceParts(KernelBuilder &k);
  void storeParts(KernelBuilder &k, const SequenceScalars &s,
                  const Point &point);

  void storeOutputs(KernelBuilder &k, const SequenceScalars &s, PointEval &eval,
                    const Point &point, Expr exists, bool oneHead);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_COLUMNS_H
