//===- CacheRows.cpp - the rows of a head: whose they are, where they lie -===//

#include "codegen/kernels/CacheRows.h"

using namespace mlir;
using namespace kvc;

static void add(std::vector<std::string> &args, const std::string &stem,
                std::initializer_list<const char *> parts) {
  for (const char *part : parts)
    if (!llvm::is_contained(args, stem + part))
      args.push_back(stem + part);
}

/// Name of the argument with a side's rows.
static std::string sideName(CacheSide side) {
  return side == CacheSide::Key     ? "k"
         : side == CacheSide::Value ? "v"
                                    : "k_raw";
}

/// Where slots lie: their heads' first ones, and the pages of a side.
static void addSlotArgs(std::vector<std::string> &args, const Shape &shape,
                        const std::string &side) {
  add(args, "slots", {""});
  add(args, "starts", {"", "_given", "_batch", "_head"});
  if (shape.cache == CacheKind::Paged) {
    add(args, side, {"_page", "_table", "_table_batch", "_table_head"});
    add(args, "page", {"_bits", "_count"});
  }
}

void kvc::addRowArgs(std::vector<std::string> &args, const Shape &shape) {
  if (!shape.hasRows())
    return;
  add(args, "rows", {"", "_batch", "_head"});
  add(args, "positions", {"", "_kind", "_batch", "_head", "_row"});
  addSlotArgs(args, shape, "k");
  if (shape.cache == CacheKind::Paged)
    add(args, "positions", {"_page"});
}

void kvc::addSideArgs(std::vector<std::string> &args, const Shape &shape,
                      CacheSide side) {
  add(args, sideName(side), {"", "_batch", "_head", "_token"});
  if (shape.hasRows())
    addSlotArgs(args, shape, sideName(side));
}

/// A number of the sequence and head: argument `name`.
static Expr numberOf(KernelBuilder &k, const std::string &name, Expr sequence,
                     Expr head) {
  Buffer numbers =
      k.buffer(name, {k.arg(name + "_batch"), k.arg(name + "_head")});
  return k.load(numbers, {sequence, head, k.index(0)}).toIndex();
}

/// The slot of a head's row 0, as the caller says it.
static Expr givenSlot(KernelBuilder &k, Expr sequence, Expr head) {
  return k.once("given slot", {sequence, head}, [&] {
    return k.choose(
        k.arg("starts_given") > 0,
        [&] {
          return KernelBuilder::Values{numberOf(k, "starts", sequence, head)};
        },
        [&] { return KernelBuilder::Values{k.index(0)}; })[0];
  });
}

/// One of the slots, whatever the caller says.
static Expr firstSlot(KernelBuilder &k, Expr sequence, Expr head) {
  Expr given = givenSlot(k, sequence, head);
  return k.once("first slot", {sequence, head, given},
                [&] { return given.max(k.index(0)).min(k.arg("slots")); });
}

/// The table's entry for a slot, as the caller says it.
static Expr givenPage(KernelBuilder &k, const std::string &side, Expr sequence,
                      Expr head, Expr slot) {
  std::string table = side + "_table";
  Buffer entries =
      k.buffer(table, {k.arg(table + "_batch"), k.arg(table + "_head")});
  return k.load(entries, {sequence, head, slot >> k.arg("page_bits")})
      .toIndex();
}

/// Page and place in it of a slot. An entry that is no page of the pool reads one
/// of its ends, so that no memory outside is read.
static std::pair<Expr, Expr> inPage(KernelBuilder &k, const std::string &side,
                                    Expr sequence, Expr head, Expr slot) {
  Expr bits = k.arg("page_bits"), number = slot >> bits;
  Expr page = givenPage(k, side, sequence, head, slot);
  return {page.max(k.index(0)).min(k.arg("page_count") - 1),
          slot - (number << bits)};
}

Buffer kvc::sideBuffer(KernelBuilder &k, CacheSide side) {
  std::string name = sideName(side);
  Expr ofBatch = k.arg(name + "_batch"), ofHead = k.arg(name + "_head"),
       ofRow = k.arg(name + "_token");
  Buffer rows = k.buffer(name, {ofBatch, ofHead, ofRow});
  if (!k.shape.hasRows())
    return rows;
  rows.place = [=, &k](ArrayRef<Expr> at) {
    Expr sequence = at[0], head = at[1], element = at[3];
    Expr slot = firstSlot(k, sequence, head) + at[2];
    Expr ofAll = head * ofHead + element;
    if (k.shape.cache == CacheKind::Ragged)
      return sequence * ofBatch + slot * ofRow + ofAll;
    auto [page, place] = inPage(k, name, sequence, head, slot);
    return page * k.arg(name + "_page") + place * ofRow + ofAll;
  };
  return rows;
}

Expr HeadRows::count() const {
  if (!k.shape.hasRows())
    return length;
  Expr first = firstSlot(k, sequence, head);
  return k.once("rows", {sequence, head, first}, [&] {
    Expr room = k.arg("slots") - first;
    return numberOf(k, "rows", sequence, head)
        .max(k.index(0))
        .min(k.arg("max_tokens").min(room));
  });
}

Expr HeadRows::isRight() const {
  Expr zero = k.index(0), first = givenSlot(k, sequence, head);
  Expr rows = numberOf(k, "rows", sequence, head);
  Expr positions = k.arg("positions_kind") > 0;
  return (length > zero) & (length <= k.arg("max_tokens")) & (first >= zero) &
         (rows >= zero) & (first + rows <= k.arg("slots")) &
         (rows <= k.arg("max_tokens")) & (positions | (rows <= length));
}

Expr HeadRows::isRight(Expr row) const {
  Expr zero = k.index(0), own = position(row);
  Expr before = k.choose(
      row > zero, [&] { return KernelBuilder::Values{position(row - 1)}; },
      [&] { return KernelBuilder::Values{k.index(-1)}; })[0];
  Expr right = (own > before) & (own >= zero) & (own < length);
  if (k.shape.cache != CacheKind::Paged)
    return right;
  Expr slot = firstSlot(k, sequence, head) + row;
  for (const char *side : {"k", "v"}) {
    Expr page = givenPage(k, side, sequence, head, slot);
    right = right & (page >= zero) & (page < k.arg("page_count"));
  }
  return right;
}

Expr HeadRows::position(Expr row) const {
  if (!k.shape.hasRows())
    return row;
  Buffer numbers = k.buffer("positions", {});
  return given("positions", row, row,
               [&](Expr place) { return k.load(numbers, {place}).toIndex(); });
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
  Expr ofHead = head * k.arg(name + "_head"), ofRow = k.arg(name + "_row");
  Expr slot = firstSlot(k, sequence, head) + row;
  if (k.shape.cache == CacheKind::Ragged)
    return sequence * k.arg(name + "_batch") + ofHead + slot * ofRow;
  auto [page, place] = inPage(k, "k", sequence, head, slot);
  return page * k.arg(name + "_page") + ofHead + place * ofRow;
}

Expr HeadRows::firstAt(Expr wanted, Expr first, Expr end) const {
  Expr candidates = end - first;
  // The first row is one of [from, from + left]; each step halves them.
  Expr bits = candidates.toI32();
  for (int64_t distance : {1, 2, 4, 8, 16})
    bits = bits | (bits >> distance);
  Expr steps = k.popcount(bits).toIndex();
  return k.loop(
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
}
