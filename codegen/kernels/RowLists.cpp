//===- RowLists.cpp - lists of tokens, and what rows represent ------------===//

#include "codegen/kernels/RowLists.h"

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

void RowLists::addArgs(KernelOp kernel, const Shape &shape,
                       std::vector<std::string> &args) {
  auto add = [&](std::initializer_list<const char *> names) {
    for (const char *name : names)
      addArg(args, name);
  };
  bool lists = !kernel.getBody().getOps<ListKeptOp>().empty();
  if (lists)
    add({"indices", "counts", "past", "index_capacity"});
  if (!kernel.getBody().getOps<ListMembersOp>().empty())
    add({"member_rows", "member_positions", "member_counts",
         "member_capacity"});
  if (hasTable(kernel, shape)) {
    addArg(args, "member_norms");
    MemberTable::addArgs(args);
  }
  if (lists && carriesState(kernel))
    add({"layer", "layers", "state", "state_rows"});
}

/// How many of the rows `from` to `to` `isMember` holds for. These may be all of the
/// head's, so that where rows are positions none of them asks what it is.
Expr RowLists::countInFront(Expr from, Expr to,
                            llvm::function_ref<Expr(Expr)> isMember) {
  using Values = KernelBuilder::Values;
  auto count = [&] {
    return Values{countMarked(k, r.block, from, to, isMember)};
  };
  auto ofPositions = [&] {
    llvm::SaveAndRestore known(r.s.rowsArePositions, true);
    return count();
  };
  bool asks = llvm::any_of(r.kernel.getBody().getOps<PositionOp>(),
                           [](PositionOp op) { return !op.getRow(); });
  return asks ? HeadRows::eitherKind(k, ofPositions, count)[0] : count()[0];
}

/// Calls `write(row, token)` for each token of the block up to `end` that
/// `isMember` holds for, rows ascending; returns how many there are up to there.
/// `all`: how many the past has, where that is known.
Expr RowLists::listWhere(Expr end, Expr all,
                         llvm::function_ref<Expr(Expr)> isMember,
                         llvm::function_ref<void(Expr, Expr)> write) {
  auto count = [&](Expr from, Expr to) {
    return r.block.warpSums(
        walkMarked(k, RowBlock::threads, from, to, k.i32(0), isMember));
  };
  Expr from = k.index(0), to = r.begin, behind;
  if (all.valid()) {
    behind = r.begin > s.past / 2;
    from = behind.select(r.begin, from);
    to = behind.select(s.past, to);
  }
  Expr front = countInFront(from, to, isMember);
  if (all.valid())
    front = behind.select(all - front, front);
  auto [before, total] = count(r.begin, end);
  walkMarked(k, RowBlock::threads, r.begin, end, front + before, isMember,
             [&](Expr token, Expr listed, Expr number) {
               k.when(listed, [&] { write(number.toIndex(), token); });
             });
  return (front + total).toIndex();
}

/// A token of the past is kept where the mask marks it, whatever that is made of; but
/// nothing is where the window takes the whole budget.
Expr RowLists::isSelected(Value mask, Expr token) {
  return r.at(token)(mask) & s.budget.above(s.window);
}

/// Writes the selected tokens of the past, then the window.
void RowLists::listKept(ListKeptOp list) {
  Expr all = totals.lookup(list.getMask());
  if (all.valid())
    all = s.budget.above(s.window).select(all, k.i32(0));
  Expr first = listWhere(
      r.end, all, [&](Expr token) { return isSelected(list.getMask(), token); },
      [&](Expr row, Expr token) { writeIndex(row, token); });
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
      r.end, totals.lookup(op.getMask()),
      [&](Expr token) { return r.at(token)(op.getMask()); },
      [&](Expr row, Expr token) {
        k.store(token.toI32(), indices, {s.sequence, r.head, row});
      });
  k.when((k.thread() == 0) & isLast,
         [&] { k.store(count.toI32(), counts, {s.sequence, r.head}); });
}

void RowLists::listAll(Expr begin, Expr end) {
  if (!has<ListKeptOp>())
    return;
  k.loop(begin + k.thread(), end, RowBlock::threads,
         [&](Expr token) { writeIndex(token, token); });
  k.when(r.span == 0, [&] { writeCount(s.rows); });
  for (auto op : r.kernel.getBody().getOps<ListMembersOp>())
    listAllMembers(op);
}

void RowLists::writeIndex(Expr row, Expr token) {
  Expr capacity = k.arg("index_capacity");
  Buffer indices =
      k.buffer("indices", {k.arg("kv_heads") * capacity, capacity});
  k.when(row < capacity,
         [&] { k.store(token.toI32(), indices, {s.sequence, r.head, row}); });
  if (carriesState(r.kernel))
    countKept(k, s, r.head, token);
  if (has<ListMembersOp>())
    k.store(row.toI32(), rankBuffer(), {s.sequence, r.head, token});
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
