//===- RowMembers.cpp - what kept rows represent --------------------------===//
//
// The caller's table of members. A prompt's is made of tokens and their
// destinations; in a merged cache there is one already, of which some is left.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/RowMembers.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

/// True where the kernel lists members of a cache that has some already.
static bool hasTable(KernelOp kernel, const Shape &shape) {
  return shape.isMerged() && !kernel.getBody().getOps<ListMembersOp>().empty();
}

void RowMembers::addArgs(KernelOp kernel, const Shape &shape,
                         std::vector<std::string> &args) {
  if (kernel.getBody().getOps<ListMembersOp>().empty())
    return;
  for (const char *name :
       {"member_rows", "member_positions", "member_counts", "member_capacity"})
    addArg(args, name);
  if (!hasTable(kernel, shape))
    return;
  addArg(args, "member_norms");
  MemberTable::addArgs(args);
}

/// Kept tokens, and tokens that have a kept one as their destination.
void RowMembers::list(ListMembersOp op) {
  Buffer rows = lists.rowsOfTokens(op);
  k.barrier(); // every kept token's row is known
  auto kept = [&](Expr token) {
    return k.load(rows, {s.sequence, r.head, token});
  };
  /// The row that represents a token, below 0 for none, and the kept token whose it is;
  /// i32.
  auto ownerOf = [&](Expr token) {
    Expr past = token.min((s.past - 1).max(k.index(0)));
    Expr to = r.at(past)(op.getDestination());
    Expr own = kept(token), isKept = own >= 0;
    // What is below 0 is above every token.
    Expr joins = (token < s.past) & s.past.toI32().above(to);
    Expr of = kept(joins.select(to, k.i32(0)).toIndex());
    return std::pair(isKept.select(own, joins.select(of, k.i32(-1))),
                     isKept.select(token.toI32(), to));
  };
  if (hasTable(r.kernel, k.shape))
    return listLeft(op, [&](Expr row) { return ownerOf(row).first; });
  Expr count = lists.listWhere(
      s.rows, Expr(),
      [&](Expr token) {
        auto [row, to] = ownerOf(token);
        return Values{row >= 0, row, to};
      },
      [&](Expr entry, Expr token, ArrayRef<Expr> owner) {
        write(op, entry, token, owner[1], owner[2]);
      });
  writeCount(count);
}

void RowMembers::tellMembers(const MemberTable &table, Expr count) {
  k.when((k.thread() == 0) & (table.isRight() == k.boolean(false)),
         [&] { k.setStatus(KVC_DATA_CACHE); });
  k.loop(k.thread(), count, RowBlock::threads, [&](Expr member) {
    Expr row = table.row(member), own = table.position(member);
    Expr before =
        (member > 0)
            .select(table.position((member - 1).max(k.index(0))), k.index(-1));
    Expr right = (row >= k.index(0)) & (row < s.rows) & (own > before) &
                 (own < s.length);
    k.when(right == k.boolean(false), [&] { k.setStatus(KVC_DATA_CACHE); });
  });
}

void RowMembers::listLeft(ListMembersOp op,
                          llvm::function_ref<Expr(Expr)> newRow) {
  MemberTable table(k, s.sequence, r.head);
  SmallVector<Expr> head{s.sequence, r.head};
  auto at = [&](Expr i) { return SmallVector<Expr>{s.sequence, r.head, i}; };
  Buffer rows = r.outputOf(op.getTokens()), last = lists.rowsOfTokens(op);
  k.loop(k.thread(), s.rows, RowBlock::threads,
         [&](Expr row) { k.store(newRow(row), rows, at(row)); });
  k.barrier(); // ranks have been read
  k.loop(k.thread(), s.rows, RowBlock::threads,
         [&](Expr row) { k.store(k.i32(-1), last, at(row)); });
  k.barrier();
  /// The row that represents a member now; below 0 for none.
  auto rowOf = [&](Expr member) {
    Expr row = table.row(member);
    Expr right = (row >= k.index(0)) & (row < s.rows);
    Expr safe = row.max(k.index(0)).min(s.rows - 1);
    return right.select(k.load(rows, at(safe)), k.i32(-1)).toIndex();
  };
  Expr count = (s.rows > 0).select(table.count(), k.index(0));
  tellMembers(table, count);
  // A member is its row's only one when it is the last of it that is left.
  k.loop(k.thread(), count, RowBlock::threads, [&](Expr member) {
    Expr row = rowOf(member);
    k.when(row >= k.index(0),
           [&] { k.atomicMax(member.toI32(), last, at(row)); });
  });
  k.barrier();
  auto isLeft = [&](Expr member) { return rowOf(member) >= k.index(0); };
  auto canGo = [&](Expr member) {
    Expr row = rowOf(member), safe = row.max(k.index(0));
    Expr isLast = k.load(last, at(safe)) == member.toI32();
    return (row >= k.index(0)) & (isLast == k.boolean(false));
  };
  // Of too many, the first ones that can go; up to which, their count's place tells.
  Expr limit = k.index(-1);
  if (op.getAtMost()) {
    Expr most =
        atLeastNone(k, evalScalar(k, s, op.getAtMost()), op.getAtMost());
    Expr left = countMarked(k, r.block, k.index(0), count, isLeft).toIndex();
    Expr tooMany = (left - most).max(k.index(0));
    Buffer note = k.buffer("member_counts", {k.arg("kv_heads")});
    k.when(k.thread() == 0, [&] {
      k.store((tooMany > 0).select(count, k.index(-1)).toI32(), note, head);
    });
    k.barrier();
    lists.listWhere(
        count, Expr(), [&](Expr member) { return Values{canGo(member)}; },
        [&](Expr number, Expr member, ArrayRef<Expr>) {
          k.when(number == tooMany - 1,
                 [&] { k.store(member.toI32(), note, head); });
        });
    k.barrier();
    limit = k.load(note, head).toIndex();
    k.barrier(); // all have read it
  }
  Expr capacity = k.arg("member_capacity");
  SmallVector<Expr> strides{k.arg("kv_heads") * capacity, capacity};
  Expr listed = lists.listWhere(
      count, Expr(),
      [&](Expr member) {
        Expr goes = (member <= limit) & canGo(member);
        return Values{isLeft(member) & (goes == k.boolean(false))};
      },
      [&](Expr entry, Expr member, ArrayRef<Expr>) {
        k.when(entry < capacity, [&] {
          auto put = [&](const char *name, Expr value) {
            k.store(value, k.buffer(name, strides), at(entry));
          };
          put("member_rows", rowOf(member).toI32());
          put("member_positions", table.position(member).toI32());
          put("member_norms", table.norm(member));
        });
      });
  writeCount(listed);
}

void RowMembers::write(ListMembersOp op, Expr entry, Expr token, Expr row,
                       Expr to) {
  Expr capacity = k.arg("member_capacity");
  SmallVector<Expr> strides{k.arg("kv_heads") * capacity, capacity};
  SmallVector<Expr> at{s.sequence, r.head, entry};
  k.when(entry < capacity, [&] {
    k.store(row, k.buffer("member_rows", strides), at);
    Expr position = op.getSharePositions() ? to : token.toI32();
    k.store(position, k.buffer("member_positions", strides), at);
    k.store(token.toI32(), r.outputOf(op.getTokens()), at);
  });
}

void RowMembers::writeCount(Expr count) {
  Expr capacity = k.arg("member_capacity");
  k.when(k.thread() == 0, [&] {
    k.store(count.min(capacity).toI32(),
            k.buffer("member_counts", {k.arg("kv_heads")}),
            {s.sequence, r.head});
    k.when(count > capacity, [&] { k.setStatus(KVC_DATA_CAPACITY); });
  });
}

void RowMembers::listAll(ListMembersOp op) {
  if (hasTable(r.kernel, k.shape))
    return listLeft(op, [](Expr row) { return row.toI32(); });
  k.loop(k.thread(), s.rows, RowBlock::threads, [&](Expr token) {
    write(op, token, token, token.toI32(), token.toI32());
  });
  writeCount(s.rows);
}
