//===- RowLists.cpp - lists of tokens, and what rows represent ------------===//

#include "codegen/kernels/RowLists.h"

#include "kvc/artifact.h"

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

/// True where the kernel lists members of a cache that has some already.
static bool hasTable(KernelOp kernel, const Shape &shape) {
  return shape.cache == CacheKind::Merged &&
         !kernel.getBody().getOps<ListMembersOp>().empty();
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
  Expr front = countMarked(k, r.block, from, to, isMember);
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

/// Where each kept token's row is noted, for its members.
Buffer RowLists::rankBuffer() {
  ListMembersOp op = *r.kernel.getBody().getOps<ListMembersOp>().begin();
  return scratchBuffer(k, scratchName(op.getBufferAttr()), op.getType());
}

/// Writes the table of what the kept rows represent: kept tokens, and tokens
/// that have a kept one as their destination.
void RowLists::listMembers(ListMembersOp op) {
  Buffer rank = rankBuffer();
  k.barrier(); // every kept token's row is known
  auto destination = [&](Expr token) {
    return r.at(token)(op.getDestination()).toIndex();
  };
  auto isKept = [&](Expr token) {
    Expr past = token.min((s.past - 1).max(k.index(0)));
    return (token >= s.past) | isSelected(op.getMask(), past);
  };
  /// The kept token that represents a token, below 0 for none.
  auto owner = [&](Expr token) {
    Expr past = token.min((s.past - 1).max(k.index(0)));
    Expr to = destination(past);
    Expr valid = (to >= k.index(0)) & (to < s.past);
    Expr safe = valid.select(to, k.index(0));
    Expr merged = valid & isSelected(op.getMask(), safe);
    return isKept(token).select(token, merged.select(to, k.index(-1)));
  };
  if (hasTable(r.kernel, k.shape))
    return listLeft(op, [&](Expr row) {
      Expr to = owner(row), safe = to.max(k.index(0));
      return (to >= k.index(0))
          .select(k.load(rank, {s.sequence, r.head, safe}), k.i32(-1));
    });
  Expr count = listWhere(
      s.rows, Expr(), [&](Expr token) { return owner(token) >= k.index(0); },
      [&](Expr entry, Expr token) {
        Expr to = owner(token);
        Expr row = k.load(rank, {s.sequence, r.head, to});
        writeMember(op, entry, token, row, to);
      });
  writeMemberCount(count);
}

/// Sets KVC_DATA_CACHE where a member has no row, or positions do not ascend below T.
void RowLists::tellMembers(const MemberTable &table, Expr count) {
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

void RowLists::listLeft(ListMembersOp op,
                        llvm::function_ref<Expr(Expr)> newRow) {
  MemberTable table(k, s.sequence, r.head);
  SmallVector<Expr> head{s.sequence, r.head};
  auto at = [&](Expr i) { return SmallVector<Expr>{s.sequence, r.head, i}; };
  Buffer rows = r.outputOf(op.getTokens()), last = rankBuffer();
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
    listWhere(count, Expr(), canGo, [&](Expr number, Expr member) {
      k.when(number == tooMany - 1,
             [&] { k.store(member.toI32(), note, head); });
    });
    k.barrier();
    limit = k.load(note, head).toIndex();
    k.barrier(); // all have read it
  }
  Expr capacity = k.arg("member_capacity");
  SmallVector<Expr> strides{k.arg("kv_heads") * capacity, capacity};
  Expr listed = listWhere(
      count, Expr(),
      [&](Expr member) {
        Expr goes = (member <= limit) & canGo(member);
        return isLeft(member) & (goes == k.boolean(false));
      },
      [&](Expr entry, Expr member) {
        k.when(entry < capacity, [&] {
          auto put = [&](const char *name, Expr value) {
            k.store(value, k.buffer(name, strides), at(entry));
          };
          put("member_rows", rowOf(member).toI32());
          put("member_positions", table.position(member).toI32());
          put("member_norms", table.norm(member));
        });
      });
  writeMemberCount(listed);
}

void RowLists::writeMember(ListMembersOp op, Expr entry, Expr token, Expr row,
                           Expr to) {
  Expr capacity = k.arg("member_capacity");
  SmallVector<Expr> strides{k.arg("kv_heads") * capacity, capacity};
  SmallVector<Expr> at{s.sequence, r.head, entry};
  k.when(entry < capacity, [&] {
    k.store(row, k.buffer("member_rows", strides), at);
    Expr position = op.getSharePositions() ? to : token;
    k.store(position.toI32(), k.buffer("member_positions", strides), at);
    k.store(token.toI32(), r.outputOf(op.getTokens()), at);
  });
}

void RowLists::writeMemberCount(Expr count) {
  Expr capacity = k.arg("member_capacity");
  k.when(k.thread() == 0, [&] {
    k.store(count.min(capacity).toI32(),
            k.buffer("member_counts", {k.arg("kv_heads")}),
            {s.sequence, r.head});
    k.when(count > capacity, [&] {
      k.setStatus(KVC_DATA_CAPACITY);
    });
  });
}

void RowLists::listAll(Expr begin, Expr end) {
  if (!has<ListKeptOp>())
    return;
  k.loop(begin + k.thread(), end, RowBlock::threads,
         [&](Expr token) { writeIndex(token, token); });
  k.when(r.span == 0, [&] { writeCount(s.rows); });
  for (auto op : r.kernel.getBody().getOps<ListMembersOp>()) {
    if (hasTable(r.kernel, k.shape)) {
      listLeft(op, [](Expr row) { return row.toI32(); });
      continue;
    }
    k.loop(k.thread(), s.rows, RowBlock::threads, [&](Expr token) {
      writeMember(op, token, token, token.toI32(), token);
    });
    writeMemberCount(s.rows);
  }
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
    k.when(count > capacity, [&] {
      k.setStatus(KVC_DATA_CAPACITY);
    });
  });
}
