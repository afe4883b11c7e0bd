//===- Rows.cpp - what needs a row of tokens, or a span of one ------------===//
//
// 512 threads. Kernels of kind rows: grid (1, Hkv, batch), one block per KV head
// and sequence, for what is known only of a whole row. Of kind spans: grid
// (min(ceildiv(T, 512), 16), Hkv, batch), a block for a span of the past: 512 tokens or a
// multiple (RowBlock.h).
//
// Walks the body in order; stored values, statistics and the steps of a selection
// are loops of the whole block with barriers between them, everything else is
// pulled in at the points where it is needed. At the end the kept tokens are
// listed in ascending order: two passes over the mask and a prefix sum, no sort;
// a span's block counts in front of it as well.
//
// Of what another block has computed in the same kernel, a span's block knows
// nothing: values of other tokens it computes again, but for selections, which
// it has for every token (Candidates.h).
//
// Shared memory: 8 to 34 KiB where something is selected (RadixSelect.h), 4 more where
// that is listed, 8 where heads of a cache of rows share a budget (HeadShares.h), 32 where
// masses are counted (CountMass.h), 2 where channels are reduced, and two numbers a warp.
// No stages: a thread has 4 tokens in flight, 16 of a whole row.
//
// Barriers: one for a stored value; two for a statistic over tokens, digits, or a list; to
// list candidates three, and three for 2048 tokens; to select seven where up to 256 of
// them are left, else more by digit, and two where that is listed. Reads each value at the
// block's tokens once for each op that walks them; to select, a head's 8 KiB of digits and
// its candidates, 8 bytes each, or of a short past 2 bytes a token, in every block. Writes 4
// bytes a token of each value that other kernels read, 2 where they select by it, 8 a
// candidate, and 4 a kept row.
//
// A sequence with T <= B, or a head with as few rows, keeps everything: nothing is
// computed.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/CandidateLists.h"
#include "codegen/kernels/Candidates.h"
#include "codegen/kernels/CountMass.h"
#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/RowMembers.h"
#include "codegen/kernels/TokenParts.h"
#include "codegen/kernels/TokenDeviations.h"
#include "codegen/kernels/TokenReductions.h"

using namespace mlir;
using namespace kvc;

namespace {

class RowsBuilder : PolicyKernel {
  static constexpr int64_t threads = RowBlock::threads;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    addArg(spec.args, "status");
    RowLists::addArgs(kernel, spec.args);
    RowMembers::addArgs(kernel, site.shape, spec.args);
    spec.blockSize = threads;
    bool spans = kernel.getKind() == KernelKind::Spans;
    spec.grid = {spans ? RowBlock::spanCount() : "1", "kv_heads", "batch"};
    if (kernel.listsForHeads())
      spec.aboveTokens = site.listsAbove;
    return spec;
  }

public:
  RowsBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)), block(k, threads),
        ofSpan(kernel.getKind() == KernelKind::Spans) {}

  void build() {
    if (selects())
      radix.emplace(k, block, listsSelected() ? RowSplits::most : 0);
    if (k.shape.hasRows() && ranksAllHeads())
      shares.emplace(k, block);
    if (!kernel.getBody().getOps<CountMassOp>().empty())
      masses.emplace(k, block);
    if (makesChannels())
      channelRuns = k.shared(k.b.getF32Type(), threads);
    openHeadBlock();
    s.past = s.past.max(k.index(0)); // it is divided
    LeafReader reader = [this](Value v, const Point &p) { return leaf(v, p); };
    Expr span = ofSpan ? k.block(gpu::Dimension::x) : k.index(0);
    Expr spanLength = ofSpan ? RowBlock::spanLength(k, s) : k.index(0);
    Expr first = span * spanLength, behind = first + spanLength;
    Expr begin = ofSpan ? first.min(s.past) : k.index(0);
    Expr end = ofSpan ? behind.min(s.past) : s.past;
    row.emplace(RowBlock{k, block, kernel, s, head, reader, begin, end});
    row->span = span;
    if (!ofSpan) // its threads have many tokens, one after the other
      row->together = 16;
    lists.emplace(*row, ofSpan ? behind >= s.past : k.boolean(true));
    members.emplace(*row, *lists);
    // What others may read of a head is made where it keeps all its rows, too.
    bool listsKept = !kernel.getBody().getOps<ListKeptOp>().empty();
    Expr keepAll = listsKept
                       ? keepsAll(k, s, kernel->getParentOfType<PolicyOp>())
                       : s.length <= s.budget;
    // The first block has work without a past as well.
    Expr hasSpan = (begin < end) | (span == 0);
    k.choose(
        keepAll,
        [&] {
          lists->listAll(first, ofSpan ? behind.min(s.rows) : s.rows);
          for (auto op : kernel.getBody().getOps<ListMembersOp>())
            members->listAll(op);
          return KernelBuilder::Values{};
        },
        [&] {
          k.when(hasSpan, [&] {
            for (Operation &op : kernel.getBody().front())
              run(&op);
            row->storeOutputs();
          });
          return KernelBuilder::Values{};
        });
  }

private:
  ThreadBlock block;
  bool ofSpan;
  std::optional<RadixSelect> radix;
  std::optional<HeadShares> shares;
  std::optional<MassCounter> masses;
  Buffer channelRuns;
  std::optional<RowBlock> row;
  std::optional<RowLists> lists;
  std::optional<RowMembers> members;
  /// Statistics over tokens, per value and member.
  llvm::DenseMap<std::pair<Value, int>, Expr> statistics;
  llvm::DenseMap<Operation *, SelectedScores> selections;

  bool selects() {
    return llvm::any_of(kernel.getBody().getOps(),
                        llvm::IsaPred<CountDigitsOp, ListCandidatesOp, TopkOp>);
  }

  static bool isListed(TopkOp topk) {
    return llvm::any_of(topk->getUsers(), llvm::IsaPred<ListKeptOp, ListOp>);
  }
  bool listsSelected() {
    return llvm::any_of(kernel.getBody().getOps<TopkOp>(), isListed);
  }

  bool ranksAllHeads() {
    return llvm::any_of(kernel.getBody().getOps<ListCandidatesOp>(),
                        [](ListCandidatesOp op) { return op.getAllHeads(); });
  }

  bool makesChannels() {
    return llvm::any_of(kernel.getBody().getOps(), [](Operation &op) {
      return isa<ReduceOp, CombinePartsOp>(op) &&
             axesOf(op.getResult(0).getType()).back() == Axis::Channel;
    });
  }

  std::optional<Expr> leaf(Value value, const Point &p) {
    if (std::optional<Expr> operand = input(value, p))
      return operand;
    if (std::optional<Expr> made = row->madeAt(value, p))
      return made;
    Operation *op = value.getDefiningOp();
    if (auto store = dyn_cast<StoreOp>(op)) {
      if (!ofSpan)
        return row->loadStored(store, p);
      // Other tokens are stored by other blocks.
      PointEval eval(k, s, row->leaf, p);
      return eval(store.getValue(), p.member);
    }
    if (auto it = statistics.find({value, p.member}); it != statistics.end())
      return it->second;
    if (auto topk = dyn_cast<TopkOp>(op)) {
      PointEval eval = row->at(p.token);
      return selections.lookup(op).contains(eval(topk.getScore()), p.token);
    }
    return std::nullopt;
  }

  void run(Operation *op) {
    k.b.setLoc(op->getLoc());
    if (auto store = dyn_cast<StoreOp>(op))
      return row->runStore(store);
    if (auto digits = dyn_cast<CountDigitsOp>(op))
      return countDigits(*row, *radix, digits);
    if (auto candidates = dyn_cast<ListCandidatesOp>(op)) {
      auto digits = cast<BlockArgument>(candidates.getDigits());
      return listCandidates(*row, *radix, candidates,
                            scratchBuffer(k, site.inputs[digits.getArgNumber()],
                                          digits.getType()),
                            candidates.getAllHeads() && shares ? &*shares
                                                               : nullptr,
                            hasLists(k, site));
    }
    if (auto topk = dyn_cast<TopkOp>(op))
      return runTopk(topk);
    if (auto list = dyn_cast<ListKeptOp>(op))
      return lists->listKept(list);
    if (auto list = dyn_cast<ListOp>(op))
      return lists->listMarked(list);
    if (auto table = dyn_cast<ListMembersOp>(op))
      return members->list(table);
    if (auto select = dyn_cast<SelectHeadsOp>(op))
      return note(select, -1, isSelected(select));
    if (auto count = dyn_cast<CountMassOp>(op))
      return note(count, -1, masses->count(*row, count));
    if (TokenParts::isPart(op))
      return reduceSpan(*row, TokenParts(op));
    if (isa<CombinePartsOp, CombineExpSumsOp>(op))
      return runCombine(op);
    if (auto combine = dyn_cast<CombineDeviationsOp>(op))
      return runDeviations(combine);
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && axesOf(reduce.getType()).back() == Axis::Channel)
      return channelStatistic(*row, reduce, channelRuns);
    if (reduce && reduce.getAxis() == ReduceAxis::Tokens)
      noteMembers(reduce, [&](int member) {
        return tokenStatistic(*row, reduce, member);
      });
  }

  SmallVector<std::string> inputsOf(Operation *op) {
    return llvm::map_to_vector(op->getOperands(), [&](Value parts) {
      return site.inputs[cast<BlockArgument>(parts).getArgNumber()];
    });
  }

  Expr isSelected(SelectHeadsOp select) {
    auto combine = select.getValue().getDefiningOp<CombineDeviationsOp>();
    if (!combine)
      return isSelectedHead(*row, select);
    TokenDeviations deviations(*row, combine, inputsOf(combine));
    return isSelectedHead(*row, select, [&](Expr kvHead) {
      return deviations.ofHead(kvHead, k.index(0));
    });
  }

  /// Who asks for those of all heads makes the own one, too.
  void runDeviations(CombineDeviationsOp op) {
    if (llvm::all_of(op->getUsers(), llvm::IsaPred<SelectHeadsOp>))
      return;
    TokenDeviations deviations(*row, op, inputsOf(op));
    SmallVector<Expr> own = deviations.ofOwnHead();
    noteMembers(op, [&](int member) { return own[std::max(member, 0)]; });
  }

  void runCombine(Operation *op) {
    SmallVector<std::string> inputs = inputsOf(op);
    auto combine = dyn_cast<CombinePartsOp>(op);
    if (combine && axesOf(combine.getType()).back() == Axis::Channel)
      return combineParts(*row, combine, inputs[0], channelRuns);
    bool perQuery = headsOf(op->getResult(0).getType()) == Axis::QueryHeads;
    for (auto [j, numbers] :
         llvm::enumerate(combineSpans(*row, TokenParts(op), inputs)))
      for (auto [result, number] : llvm::zip(op->getResults(), numbers))
        note(result, perQuery ? int(j) : -1, number);
  }

  void noteMembers(Operation *op, llvm::function_ref<Expr(int member)> value) {
    Value result = op->getResult(0);
    bool perQuery = headsOf(result.getType()) == Axis::QueryHeads;
    for (int64_t j = 0; j < row->members(result); ++j)
      note(result, perQuery ? int(j) : -1, value(perQuery ? int(j) : -1));
  }

  void note(Value result, int member, Expr value) {
    statistics[{result, member}] = value;
  }

  void runTopk(TopkOp topk) {
    Expr wanted = row->at(k.index(0))(topk.getCount()).toIndex();
    Candidates candidates(k, site, s.sequence, topk.getScore(),
                          topk.getCandidates());
    Candidates::Found found =
        candidates.select(*row, *radix, wanted, isListed(topk));
    selections[topk] = SelectedScores(k, found.selection);
    if (isListed(topk))
      lists->inFront[topk] = found.inFront;
  }
};

} // namespace

void kvc::buildRows(KernelOp kernel, const KernelSite &site) {
  RowsBuilder(kernel, site).build();
}
