//===- RowLists.cpp - lists of tokens --------------------------------------===//

#include "codegen/kernels/RowLists.h"

#include "codegen/kernels/KeptLayers.h"

#include "kvc/artifact.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace kvc;

/// The policy reads what earlier layers kept, so every layer counts.
static bool carriesState(KernelOp kernel) {
  WalkResult result =
      kernel->getParentOfType<PolicyOp>().walk([](NeedsOpInterface op) {
        bool reads =
            llvm::is_contained(op.getNeeds().inputs, EngineInput::State);
        return reads ? WalkResult::interrupt() : WalkResult::advance();
      });
  return result.wasInterrupted();
}

void RowLists::addArgs(KernelOp kernel, std::vector<std::string> &args) {
  if (kernel.getBody().getOps<ListKeptOp>().empty())
    return;
  for (const char *name : {"indices", "counts", "past", "index_capacity"})
    addArg(args, name);
  if (carriesState(kernel))
    for (const char *name : {"layer", "layers", "state", "state_rows"})
      addArg(args, name);
}

Buffer RowLists::rowsOfTokens(ListMembersOp op) {
  return scratchBuffer(k, scratchName(op.getBufferAttr()), op.getType());
}

/// How many of the rows in front of the block's `isMember` holds for. These may be most
/// of the head's, so that where rows are positions none of them asks what it is.
Expr RowLists::countInFront(llvm::function_ref<Values(Expr)> make) {
  auto count = [&] {
    return Values{countMarked(k, r.block, k.index(0), r.begin,
                              [&](Expr token) { return make(token)[0]; })};
  };
  auto ofPositions = [&] {
    llvm::SaveAndRestore known(r.s.rowsArePositions, true);
    return count();
  };
  bool asks = llvm::any_of(r.kernel.getBody().getOps<PositionOp>(),
                           [](PositionOp op) { return !op.getRow(); });
  return asks ? HeadRows::eitherKind(k, ofPositions, count)[0] : count()[0];
}

Expr RowLists::listWhere(Expr end, Expr front,
                         llvm::function_ref<Values(Expr)> make, Write write) {
  if (!front.valid())
    front = countInFront(make);
  // Of a whole row a thread has many tokens, but not twice as many as there are.
  int64_t together = std::min<int64_t>(r.together, 8);
  auto [before, total] = r.block.warpSums(walkMarked(
      k, RowBlock::threads, r.begin, end, k.i32(0), make, nullptr, together));
  walkMarked(
      k, RowBlock::threads, r.begin, end, front + before, make,
      [&](Expr token, ArrayRef<Expr> made, Expr number) {
        k.when(made[0], [&] { write(number.toIndex(), token, made); });
      },
      together);
  return (front + total).toIndex();
}

void RowLists::clearRows() {
  auto members = r.kernel.getBody().getOps<ListMembersOp>();
  if (members.empty())
    return;
  Buffer rows = rowsOfTokens(*members.begin());
  k.loop(k.thread(), s.rows, RowBlock::threads, [&](Expr token) {
    k.store(k.i32(-1), rows, {s.sequence, r.head, token});
  });
}

Expr RowLists::isSelected(Value mask, Expr token) {
  return r.at(token)(mask) & s.budget.above(s.window);
}

/// Writes the selected tokens of the past, then the window.
void RowLists::listKept(ListKeptOp list) {
  Expr front = inFront.lookup(list.getMask());
  if (front.valid())
    front = s.budget.above(s.window).select(front, k.i32(0));
  clearRows();
  Expr first = listWhere(
      r.end, front,
      [&](Expr token) { return Values{isSelected(list.getMask(), token)}; },
      [&](Expr row, Expr token, ArrayRef<Expr>) { writeIndex(row, token); });
  k.when(isLast, [&] {
    k.loop(k.thread(), s.window, RowBlock::threads,
           [&](Expr i) { writeIndex(first + i, s.past + i); });
    writeCount(first + s.window);
  });
}

/// Writes the marked tokens to the kernel's outputs.
void RowLists::listMarked(ListOp op) {
  Buffer indices = r.outputOf(op.getIndices()),
         counts = r.outputOf(op.getCounts());
  Expr count = listWhere(
      r.end, inFront.lookup(op.getMask()),
      [&](Expr token) { return Values{r.at(token)(op.getMask())}; },
      [&](Expr row, Expr token, ArrayRef<Expr>) {
        k.store(token.toI32(), indices, {s.sequence, r.head, row});
      });
  k.when((k.thread() == 0) & isLast,
         [&] { k.store(count.toI32(), counts, {s.sequence, r.head}); });
}

void RowLists::listAll(Expr begin, Expr end) {
  if (r.kernel.getBody().getOps<ListKeptOp>().empty())
    return;
  k.loop(begin + k.thread(), end, RowBlock::threads,
         [&](Expr token) { writeIndex(token, token); });
  k.when(r.span == 0, [&] { writeCount(s.rows); });
}

void RowLists::writeIndex(Expr row, Expr token) {
  Expr capacity = k.arg("index_capacity");
  Buffer indices =
      k.buffer("indices", {k.arg("kv_heads") * capacity, capacity});
  k.when(row < capacity,
         [&] { k.store(token.toI32(), indices, {s.sequence, r.head, row}); });
  if (carriesState(r.kernel))
    countKept(k, s, r.head, token);
  auto members = r.kernel.getBody().getOps<ListMembersOp>();
  if (!members.empty())
    k.store(row.toI32(), rowsOfTokens(*members.begin()),
            {s.sequence, r.head, token});
}

void RowLists::writeCount(Expr count) {
  // Of a dense prompt all heads rank as many tokens: one number a sequence.
  bool hasRows = k.shape.hasRows();
  Expr first = k.thread() == 0;
  k.when(hasRows ? first : (r.head == 0) & first, [&] {
    auto policy = r.kernel->getParentOfType<PolicyOp>();
    bool ranks = policy.getPlanAttr().getScores().has_value();
    Expr some = hasRows ? keepsAll(k, s, policy) == k.boolean(false)
                        : s.length.above(s.budget);
    Expr ranked = some & s.budget.above(s.window) & k.boolean(ranks);
    Expr past = ranked.select(s.past, k.index(0)).toI32();
    if (hasRows)
      k.store(past, k.buffer("past", {k.arg("kv_heads")}),
              {s.sequence, r.head});
    else
      k.store(past, k.buffer("past", {}), {s.sequence});
  });
  Buffer counts = k.buffer("counts", {k.arg("kv_heads")});
  k.when(k.thread() == 0, [&] {
    Expr capacity = k.arg("index_capacity");
    k.store(count.min(capacity).toI32(), counts, {s.sequence, r.head});
    k.when(count > capacity, [&] { k.setStatus(KVC_DATA_CAPACITY); });
  });
}
