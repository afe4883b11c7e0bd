//===- CacheRows.cpp - the rows of a head: whose they are, where they lie -===//

#include "codegen/kernels/CacheRows.h"

#include "codegen/kernels/ViewSlots.h"
#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

/// Name of the argument with a side's rows. Merged rows are before RoPE.
static std::string sideName(const Shape &shape, CacheSide side) {
  return side == CacheSide::Key     ? "k"
         : side == CacheSide::Value ? "v"
         : shape.isMerged()         ? "k"
                                    : "k_raw";
}

static bool isOfMembers(const Shape &shape) {
  return shape.cache == CacheKind::Members;
}

/// The slots of the cache that is read.
static ViewSlots slotsOf(KernelBuilder &k) {
  return {k, "", k.shape.isPaged()};
}

/// Where slots lie: their heads' first ones, and the pages of a side.
static void addSlotArgs(std::vector<std::string> &args, const Shape &shape,
                        const std::string &side) {
  ViewSlots::addArgs(args, "", shape.isPaged(), side);
}

void kvc::addRowArgs(std::vector<std::string> &args, const Shape &shape) {
  if (!shape.hasRows())
    return;
  if (isOfMembers(shape))
    return MemberTable::addArgs(args);
  addParts(args, "rows", {"", "_batch", "_head"});
  addParts(args, "positions", {"", "_kind", "_batch", "_head", "_row"});
  addSlotArgs(args, shape, "k");
  if (shape.isPaged())
    addParts(args, "positions", {"_page"});
}

void kvc::addSideArgs(std::vector<std::string> &args, const Shape &shape,
                      CacheSide side) {
  if (isOfMembers(shape))
    return; // LaunchSpec::keys
  std::string name = sideName(shape, side);
  addParts(args, name, {"", "_batch", "_head", "_token"});
  if (shape.hasRows())
    addSlotArgs(args, shape, name);
}

Buffer kvc::sideBuffer(KernelBuilder &k, CacheSide side) {
  if (isOfMembers(k.shape)) {
    Expr head = k.arg("max_tokens") * k.shape.headDim;
    return k.buffer(k.keys,
                    {k.arg("kv_heads") * head, head, k.index(k.shape.headDim)});
  }
  std::string name = sideName(k.shape, side);
  Buffer rows = k.buffer(name, {k.arg(name + "_batch"), k.arg(name + "_head"),
                                k.arg(name + "_token")});
  if (k.shape.hasRows())
    rows.place = [=, &k](ArrayRef<Expr> at) {
      Expr slot = slotsOf(k).first(at[0], at[1]) + at[2];
      return slotsOf(k).place(name, "_token", name, at[0], at[1], slot, at[3]);
    };
  return rows;
}

void MemberTable::addArgs(std::vector<std::string> &args) {
  addParts(args, "cache_member",
           {"_rows", "_positions", "_norms", "_counts", "_capacity"});
}

Expr MemberTable::given() const {
  return k
      .load(k.buffer("cache_member_counts", {k.arg("kv_heads")}),
            {sequence, head})
      .toIndex();
}

Expr MemberTable::most() const {
  return k.arg("cache_member_capacity").min(k.arg("max_tokens"));
}

Expr MemberTable::count() const {
  return k.once("members", {sequence, head},
                [&] { return given().max(k.index(0)).min(most()); });
}

Expr MemberTable::isRight() const {
  return (given() >= k.index(0)) & (given() <= most());
}

Expr MemberTable::load(StringRef name, Expr member) const {
  Expr capacity = k.arg("cache_member_capacity");
  return k.load(k.buffer(name, {k.arg("kv_heads") * capacity, capacity}),
                {sequence, head, member});
}

Expr MemberTable::row(Expr member) const {
  return load("cache_member_rows", member).toIndex();
}

Expr MemberTable::position(Expr member) const {
  return load("cache_member_positions", member).toIndex();
}

Expr MemberTable::norm(Expr member) const {
  return load("cache_member_norms", member);
}

Expr HeadRows::firstSlot() const {
  return k.shape.hasRows() ? slotsOf(k).first(sequence, head) : k.index(0);
}

Expr HeadRows::count() const {
  if (!k.shape.hasRows())
    return length;
  if (isOfMembers(k.shape))
    return MemberTable(k, sequence, head).count();
  Expr first = firstSlot();
  return k.once("rows", {sequence, head, first}, [&] {
    Expr room = k.arg("slots") - first;
    return numberOf(k, "rows", sequence, head)
        .min(k.arg("max_tokens").min(room))
        .max(k.index(0));
  });
}

Expr HeadRows::isRight() const {
  Expr zero = k.index(0), first = slotsOf(k).given(sequence, head);
  Expr rows = numberOf(k, "rows", sequence, head);
  Expr positions = k.arg("positions_kind") > 0;
  return (length > zero) & (length <= k.arg("max_tokens")) & (first >= zero) &
         (rows >= zero) & (first + rows <= k.arg("slots")) &
         (rows <= k.arg("max_tokens")) & (positions | (rows <= length));
}

Expr HeadRows::ascends(Expr row, PlaceOf place) const {
  Buffer numbers = k.buffer("positions", {});
  Expr zero = k.index(0), one = k.index(1);
  auto at = [&](Expr row) { return k.load(numbers, {place(row)}).toIndex(); };
  Expr own = at(row), before = at(row.max(one) - one);
  return ((row == zero) | (own > before)) & (own >= zero) & (own < length);
}

void HeadRows::tell(Expr first, Expr step, int64_t inFlight) const {
  auto tell = [&](Expr right) {
    k.when(right == k.boolean(false), [&] { k.setStatus(KVC_DATA_CACHE); });
  };
  Expr rows = count();
  auto each = [&](Expr end, llvm::function_ref<Expr(Expr)> isRight) {
    k.loop(first, end, step * inFlight, [&](Expr i) {
      Expr all = isRight(i);
      for (int64_t next = 1; next < inFlight; ++next)
        all = all & isRight((i + step * next).min(end - 1));
      tell(all);
    });
  };
  k.when(first == 0, [&] { tell(isRight()); });
  if (k.shape.isPaged()) {
    Expr bits = k.arg("page_bits"), slot = firstSlot(), from = slot >> bits;
    Expr entries = ((slot + rows - 1) >> bits) + 1 - from;
    each((rows == 0).select(k.index(0), entries), [&](Expr entry) {
      Expr at = (from + entry) << bits;
      return slotsOf(k).hasPage("k", sequence, head, at) &
             slotsOf(k).hasPage("v", sequence, head, at);
    });
  }
  // Where nobody says positions they are the rows' numbers, and the head was looked at.
  Expr kind = k.arg("positions_kind");
  auto byRow = [&](Expr row) { return placeByRow("positions", row); };
  auto bySlot = [&](Expr row) { return placeBySlot("positions", row); };
  k.when(kind == 1,
         [&] { each(rows, [&](Expr row) { return ascends(row, byRow); }); });
  k.when(kind == 2,
         [&] { each(rows, [&](Expr row) { return ascends(row, bySlot); }); });
}

Expr HeadRows::position(Expr row) const {
  if (!k.shape.hasRows())
    return row;
  if (isOfMembers(k.shape))
    return MemberTable(k, sequence, head).position(row);
  Buffer numbers = k.buffer("positions", {});
  return given("positions", row, row,
               [&](Expr place) { return k.load(numbers, {place}).toIndex(); });
}

Expr HeadRows::positionInside(Expr row) const {
  if (!k.shape.hasRows())
    return row;
  Expr zero = k.index(0), last = length - 1;
  if (isOfMembers(k.shape))
    return MemberTable(k, sequence, head).position(row).max(zero).min(last);
  Buffer numbers = k.buffer("positions", {});
  return given("positions", row, row, [&](Expr place) {
    Expr number = k.load(numbers, {place});
    return number.max(k.i32(0)).min(last.toI32()).toIndex();
  });
}

Expr HeadRows::positionOnce(Expr row) const {
  if (!k.shape.hasRows())
    return row;
  SmallVector<Expr> of{sequence, head, row};
  if (!isOfMembers(k.shape))
    of.push_back(firstSlot()); // behind which it is read
  return k.once("position", of, [&] { return position(row); });
}

Expr HeadRows::given(const std::string &name, Expr row, Expr otherwise,
                     llvm::function_ref<Expr(Expr place)> load) const {
  using Values = KernelBuilder::Values;
  Expr kind = k.arg(name + "_kind");
  auto byRow = [&] { return Values{load(placeByRow(name, row))}; };
  auto bySlot = [&] { return Values{load(placeBySlot(name, row))}; };
  return k.choose(
      kind == 0, [&] { return Values{otherwise}; },
      [&] {
        return k.shape.hasRows() ? k.choose(kind == 1, byRow, bySlot) : byRow();
      })[0];
}

Expr HeadRows::placeByRow(const std::string &name, Expr row) const {
  return sequence * k.arg(name + "_batch") + head * k.arg(name + "_head") +
         row * k.arg(name + "_row");
}

Expr HeadRows::placeBySlot(const std::string &name, Expr row) const {
  return slotsOf(k).placeOfNumber(name, sequence, head, firstSlot() + row);
}

Expr HeadRows::firstAt(Expr wanted, Expr first, Expr end) const {
  return eitherKind(
      k, [&] { return Values{wanted.max(first).min(end)}; },
      [&] { return Values{searchedFor(wanted, first, end)}; })[0];
}

HeadRows::Values HeadRows::eitherKind(KernelBuilder &k,
                                      llvm::function_ref<Values()> ofPositions,
                                      llvm::function_ref<Values()> ofRows) {
  if (!k.shape.hasRows() || isOfMembers(k.shape))
    return ofRows();
  return k.choose(k.arg("positions_kind") == 0, ofPositions, ofRows);
}

Expr HeadRows::searchedFor(Expr wanted, Expr first, Expr end) const {
  Expr candidates = end - first;
  // The first row is one of [from, from + left]; each step halves them.
  Expr bits = candidates.toI32();
  for (int64_t distance : {1, 2, 4, 8, 16})
    bits = bits | (bits >> distance);
  Expr steps = k.popcount(bits).toIndex();
  Expr found = k.loop(
      0, steps, 1, {first, candidates}, [&](Expr, ArrayRef<Expr> carried) {
        Expr from = carried[0], left = carried[1], half = left / 2;
        Expr below = k.choose(
            left > 0,
            [&] {
              return KernelBuilder::Values{position(from + half) < wanted};
            },
            [&] { return KernelBuilder::Values{k.boolean(false)}; })[0];
        return KernelBuilder::Values{below.select(from + half + 1, from),
                                     below.select(left - half - 1, half)};
      })[0];
  return found.max(first).min(end); // as it is; what is made of it has a range
}
