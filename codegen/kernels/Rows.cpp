//===- Rows.cpp - what needs a whole row of tokens ------------------------===//
//
// grid (1, Hkv, batch), 512 threads: one block per KV head and sequence. Walks
// the body in order; stored values, statistics and top-k are loops of the whole
// block with barriers between them, everything else is pulled in at the points
// where it is needed. At the end the kept tokens are listed in ascending order:
// two passes over the mask and a prefix sum, no sort.
//
// A sequence with T <= B keeps everything: nothing is computed.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/RadixSelect.h"
#include "codegen/kernels/RowLists.h"
#include "codegen/kernels/TokenReductions.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

namespace {

constexpr int64_t threads = RowBlock::threads;

LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
  LaunchSpec spec = bodyLaunch(kernel, site);
  addArg(spec.args, "status");
  RowLists::addArgs(kernel, spec.args);
  spec.blockSize = threads;
  spec.grid = {"1", "kv_heads", "batch"};
  return spec;
}

class RowsBuilder : PolicyKernel {
public:
  RowsBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)), block(k, threads),
        radix(k, block) {}

  void build() {
    if (makesChannels())
      channelRuns = k.shared(k.b.getF32Type(), threads);
    openHeadBlock();
    LeafReader reader = [this](Value v, const Point &p) { return leaf(v, p); };
    row.emplace(
        RowBlock{k, block, kernel, s, head, reader, k.index(0), s.past});
    lists.emplace(*row);
    Expr keepAll = s.length <= s.budget;
    k.choose(
        keepAll,
        [&] {
          lists->listAll();
          return KernelBuilder::Values{};
        },
        [&] {
          for (Operation &op : kernel.getBody().front())
            run(&op);
          row->storeOutputs();
          return KernelBuilder::Values{};
        });
  }

private:
  ThreadBlock block;
  RadixSelect radix;
  Buffer channelRuns;
  std::optional<RowBlock> row;
  std::optional<RowLists> lists;
  /// Statistics over tokens, per op and member.
  llvm::DenseMap<std::pair<Operation *, int>, Expr> statistics;
  llvm::DenseMap<Operation *, Selection> selections;

  bool makesChannels() {
    return llvm::any_of(kernel.getBody().getOps(), [](Operation &op) {
      return isa<CombinePartsOp>(op) ||
             (isa<ReduceOp>(op) &&
              axesOf(op.getResult(0).getType()).back() == Axis::Channel);
    });
  }

  std::optional<Expr> leaf(Value value, const Point &p) {
    if (std::optional<Expr> operand = input(value, p))
      return operand;
    Operation *op = value.getDefiningOp();
    if (auto store = dyn_cast<StoreOp>(op))
      return row->loadStored(store, p);
    if (auto it = statistics.find({op, p.member}); it != statistics.end())
      return it->second;
    if (auto topk = dyn_cast<TopkOp>(op)) {
      PointEval eval = row->at(p.token);
      Expr key = orderedKey(k, eval(topk.getScore()));
      return selections.lookup(op).contains(key, p.token);
    }
    return std::nullopt;
  }

  void run(Operation *op) {
    k.b.setLoc(op->getLoc());
    if (auto store = dyn_cast<StoreOp>(op))
      return row->runStore(store);
    if (auto topk = dyn_cast<TopkOp>(op))
      return runTopk(topk);
    if (auto list = dyn_cast<ListKeptOp>(op))
      return lists->listKept(list);
    if (auto list = dyn_cast<ListOp>(op))
      return lists->listMarked(list);
    if (auto members = dyn_cast<ListMembersOp>(op))
      return lists->listMembers(members);
    if (auto select = dyn_cast<SelectHeadsOp>(op))
      return note(select, -1, isSelectedHead(*row, select));
    if (auto count = dyn_cast<CountMassOp>(op))
      return note(count, -1, countMass(*row, count));
    if (auto combine = dyn_cast<CombinePartsOp>(op)) {
      auto parts = cast<BlockArgument>(combine.getParts());
      return combineParts(*row, combine, site.inputs[parts.getArgNumber()],
                          channelRuns);
    }
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && axesOf(reduce.getType()).back() == Axis::Channel)
      return channelStatistic(*row, reduce, channelRuns);
    if (reduce && reduce.getAxis() == ReduceAxis::Tokens)
      for (int64_t j = 0; j < row->members(reduce.getValue()); ++j) {
        bool perQuery =
            headsOf(reduce.getValue().getType()) == Axis::QueryHeads;
        int member = perQuery ? int(j) : -1;
        note(reduce, member, tokenStatistic(*row, reduce, member));
      }
  }

  void note(Operation *op, int member, Expr value) {
    statistics[{op, member}] = value;
  }

  void runTopk(TopkOp topk) {
    auto score = [&](Expr token) { return row->at(token)(topk.getScore()); };
    Buffer status = k.buffer("status", {});
    row->forTokens(
        [&](Expr token) { return KernelBuilder::Values{score(token)}; },
        [&](Expr, ArrayRef<Expr> made) {
          k.when(made[0].isNaN(), [&] {
            k.atomicOr(k.i32(KVC_DATA_NAN), status, {k.index(0)});
          });
        });
    Expr wanted = row->at(k.index(0))(topk.getCount()).toIndex();
    selections[topk] = radix.select(s.past, wanted, [&](Expr token) {
      return orderedKey(k, score(token));
    });
  }
};

} // namespace

void kvc::buildRows(KernelOp kernel, const KernelSite &site) {
  RowsBuilder(kernel, site).build();
}
