//===- Keep.cpp - kept tokens, listed and moved ----------------------------===//
//
// The end of a selection, and in the same launch the compaction: what a kernel of kind
// spans is built as that lists what one kvc.topk selects and does nothing else, where
// kept rows of a dense prompt are packed. How many rows each head keeps is known before
// it is known which, so the heads' places are.
//
// grid (min(ceildiv(T, 256), 16), Hkv, batch), 512 threads. Each block finds the
// threshold for itself, and has an even share of the head's kept rows, however these lie:
// it lists them (SelectedRows.h) and, if argument "moves" says so, moves them, 16 bytes of
// K and of V a thread, two of each in flight. A call that selects only has "moves" = 0,
// and one that compacts a kernel for it (Compact.cpp).
//
// Shared memory: 42 KiB (SelectedRows.h), two numbers a warp. Barriers: those of the
// search, and three for 512 rows. No stages. Reads in each block what the search does
// (Candidates.h: candidates, or of a short past 2 bytes a token) and the scores of the
// splits that have its rows; reads and writes 2 * d * bytes a kept row, and 4 of its index.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/Ragged.h"
#include "codegen/kernels/RowLists.h"
#include "codegen/kernels/SelectedRows.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// True for what every block can have at any head by itself: no loop over tokens makes
/// it, and nothing that one block has stored.
static bool isOfAnyPoint(Operation &op) {
  bool isScalar = llvm::none_of(op.getResultTypes(), llvm::IsaPred<TensorType>);
  return isScalar || op.hasTrait<OpTrait::Elementwise>() ||
         isa<AllocateOp, AllocateLayersOp, BroadcastOp>(op);
}

bool kvc::movesKept(KernelOp kernel, const Shape &shape) {
  PlanAttr plan = kernel->getParentOfType<PolicyOp>().getPlanAttr();
  bool carries = !plan.getStates().empty(); // numbers, which are moved as well
  if (kernel.getKind() != KernelKind::Spans || shape.hasRows() ||
      shape.into != Into::Packed || carries)
    return false;
  auto lists = kernel.getBody().getOps<ListKeptOp>();
  auto selections = kernel.getBody().getOps<TopkOp>();
  return llvm::hasSingleElement(lists) && llvm::hasSingleElement(selections) &&
         (*lists.begin()).getMask() == (*selections.begin()).getResult() &&
         llvm::all_of(kernel.getBody().getOps(), [](Operation &op) {
           return isa<ListKeptOp, TopkOp, YieldOp>(op) || isOfAnyPoint(op);
         });
}

namespace {

class KeepBuilder : PolicyKernel {
  static constexpr int64_t threads = RowBlock::threads;
  /// Blocks of a head, at most, and tokens that make another one worth its search.
  static constexpr int64_t mostBlocks = 16, tokensOfBlock = 256;
  /// Rows that are listed at a time.
  static constexpr int64_t rowsTogether = SelectedRows::together;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    addArg(spec.args, "status");
    RowLists::addArgs(kernel, spec.args);
    for (CacheSide side : {CacheSide::Key, CacheSide::Value})
      addSideArgs(spec.args, site.shape, side);
    Ragged::addArgs(spec.args);
    addArg(spec.args, "moves");
    spec.blockSize = threads;
    spec.moves = true;
    spec.grid = {"min(ceildiv(tokens," + std::to_string(tokensOfBlock) + ")," +
                     std::to_string(mostBlocks) + ")",
                 "kv_heads", "batch"};
    return spec;
  }

public:
  KeepBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)),
        topk(*kernel.getBody().getOps<TopkOp>().begin()),
        threadBlock(k, threads), searched(k, threadBlock) {}

  void build() {
    openHeadBlock();
    s.past = s.past.max(k.index(0));
    LeafReader reader = [this](Value v, const Point &p) { return input(v, p); };
    row.emplace(
        RowBlock{k, threadBlock, kernel, s, head, reader, k.index(0), s.past});
    keepsEvery = keepsAll(k, s, kernel->getParentOfType<PolicyOp>());
    selected = selectedOf(head);
    Expr kept = keptOf(head), block = k.block(gpu::Dimension::x);
    Expr blocks = ((s.rows + (tokensOfBlock - 1)) / tokensOfBlock)
                      .min(k.index(mostBlocks))
                      .max(k.index(1));
    Expr share = (kept + (blocks - 1)) / blocks;
    Expr first = (share * block.min(blocks)).min(kept);
    RowLists lists(*row, k.boolean(true));
    k.when(block == 0, [&] { lists.writeCount(kept); });
    // The first block has the head's offset to write, of no rows as well.
    k.when((first < kept) | (block == 0),
           [&] { keep(lists, first, (first + share).min(kept), kept); });
  }

private:
  TopkOp topk;
  ThreadBlock threadBlock;
  SelectedRows searched;
  std::optional<RowBlock> row;
  /// Whether all tokens are kept; else how many of the past are selected, index.
  Expr keepsEvery, selected;

  /// What kvc.topk selects of a head, index; nothing where the window takes the whole
  /// budget.
  Expr selectedOf(Expr other) {
    Expr count = valueAt(topk.getCount(), other, k.index(0)).toIndex();
    count = count.max(k.index(0)).min(s.past);
    return s.budget.above(s.window).select(count, k.index(0));
  }

  Expr keptOf(Expr other) {
    return keepsEvery.select(s.rows, selectedOf(other) + s.window);
  }

  /// The rows `first` to `end` of the head's `kept` ones.
  void keep(RowLists &lists, Expr first, Expr end, Expr kept) {
    Expr isSearched =
        (keepsEvery == k.boolean(false)) & (selected > 0) & (selected < s.past);
    Values found = k.choose(
        isSearched,
        [&] {
          Candidates candidates(k, site, s.sequence, topk.getScore(),
                                topk.getCandidates());
          return searched.search(*row, candidates, selected);
        },
        [&] { return searched.none(); });
    searched.know(found);
    // Without a search the first tokens are selected: all of the past, or none.
    Expr inOrder = keepsEvery.select(s.rows, selected);
    Expr moves = k.arg("moves") > 0, capacity = k.arg("index_capacity");
    Ragged rows(k, s.sequence, head, kept.min(capacity),
                [&](Expr other) { return keptOf(other).min(capacity); });
    k.when(moves & (k.block(gpu::Dimension::x) == 0) & (k.thread() == 0),
           [&] { rows.storeOffset(); });
    k.loop(first, end, rowsTogether, [&](Expr base) {
      Expr behind = (base + rowsTogether).min(end), mine = base + k.thread();
      Expr isWindow = mine >= inOrder;
      k.when((mine < behind) & (isWindow | (isSearched == k.boolean(false))),
             [&] {
               Expr token = isWindow.select(mine - inOrder + s.past, mine);
               k.store(token.toI32(), searched.tokens(), {k.thread()});
             });
      k.when(isSearched & (base < selected), [&] {
        searched.list(*row, topk.getScore(), base, behind.min(selected));
      });
      k.barrier(); // the tokens are listed
      k.when(mine < behind, [&] {
        lists.writeIndex(mine,
                         k.load(searched.tokens(), {k.thread()}).toIndex());
      });
      k.when(moves, [&] { moveRows(rows, base, behind); });
      k.barrier(); // and have been read
    });
  }

  /// The rows `base` to `end`, whose tokens are listed. Behind the last one it is read
  /// again.
  void moveRows(Ragged &rows, Expr base, Expr end) {
    int64_t width = k.shape.vectorWidth(), pieces = k.shape.headDim / width;
    Expr count = end - base, all = count * pieces;
    const CacheSide sides[] = {CacheSide::Key, CacheSide::Value};
    k.streamOver(
        k.thread(), all, threads, {},
        [&](Expr piece) {
          Expr number = (piece / pieces).min(count - 1);
          Expr token = k.load(searched.tokens(), {number}).toIndex();
          Expr dim = piece % pieces * width;
          Values loaded;
          for (CacheSide side : sides)
            loaded.push_back(k.loadVector(
                sideBuffer(k, side), {s.sequence, head, token, dim}, width));
          return loaded;
        },
        [&](Expr piece, ArrayRef<Expr> loaded, ArrayRef<Expr>) {
          Expr mine = base + piece / pieces, dim = piece % pieces * width;
          k.when((piece < all) & rows.has(mine), [&] {
            for (int side : {0, 1})
              rows.store(side, mine, dim, loaded[side]);
          });
          return Values();
        },
        /*together=*/2);
  }
};

} // namespace

void kvc::buildKeep(KernelOp kernel, const KernelSite &site) {
  KeepBuilder(kernel, site).build();
}
