//===- CacheRows.cpp - the rows of a head: whose they are, where they lie -===//

#include "codegen/kernels/CacheRows.h"

#include "codegen/kernels/ViewSlots.h"
#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

/// Name of the argument with a side's rows.
static std::string sideName(CacheSide side) {
  return side == CacheSide::Key     ? "k"
         : side == CacheSide::Value ? "v"
                                    : "k_raw";
}

/// The slots of the cache that is read.
static ViewSlots slotsOf(KernelBuilder &k) {
  return {k, "", k.shape.cache == CacheKind::Paged};
}

/// Where slots lie: their heads' first ones, and the pages of a side.
static void addSlotArgs(std::vector<std::string> &args, const Shape &shape,
                        const std::string &side) {
  ViewSlots::addArgs(args, "", shape.cache == CacheKind::Paged, side);
}

void kvc::addRowArgs(std::vector<std::string> &args, const Shape &shape) {
  if (!shape.hasRows())
    return;
  addParts(args, "rows", {"", "_batch", "_head"});
  addParts(args, "positions", {"", "_kind", "_batch", "_head", "_row"});
  addSlotArgs(args, shape, "k");
  if (shape.cache == CacheKind::Paged)
    addParts(args, "positions", {"_page"});
}

void kvc::addSideArgs(std::vector<std::string> &args, const Shape &shape,
                      CacheSide side) {
  addParts(args, sideName(side), {"", "_batch", "_head", "_token"});
  if (shape.hasRows())
    addSlotArgs(args, shape, sideName(side));
}

Buffer kvc::sideBuffer(KernelBuilder &k, CacheSide side) {
  std::string name = sideName(side);
  Buffer rows = k.buffer(name, {k.arg(name + "_batch"), k.arg(name + "_head"),
                                k.arg(name + "_token")});
  if (k.shape.hasRows())
    rows.place = [=, &k](ArrayRef<Expr> at) {
      Expr slot = slotsOf(k).first(at[0], at[1]) + at[2];
      return slotsOf(k).place(name, "_token", name, at[0], at[1], slot, at[3]);
    };
  return rows;
}

Expr HeadRows::firstSlot() const { return slotsOf(k).first(sequence, head); }

Expr HeadRows::count() const {
  if (!k.shape.hasRows())
    return length;
  Expr first = firstSlot();
  return k.once("rows", {sequence, head, first}, [&] {
    Expr room = k.arg("slots") - first;
    return numberOf(k, "rows", sequence, head)
        .max(k.index(0))
        .min(k.arg("max_tokens").min(room));
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

Expr HeadRows::isRight(Expr row) const {
  Expr zero = k.index(0), own = position(row);
  Expr before = k.choose(
      row > zero, [&] { return KernelBuilder::Values{position(row - 1)}; },
      [&] { return KernelBuilder::Values{k.index(-1)}; })[0];
  Expr right = (own > before) & (own >= zero) & (own < length);
  if (k.shape.cache != CacheKind::Paged)
    return right;
  Expr slot = firstSlot() + row;
  for (const char *side : {"k", "v"})
    right = right & slotsOf(k).hasPage(side, sequence, head, slot);
  return right;
}

void HeadRows::tell(Expr first, Expr step) const {
  auto tell = [&](Expr right) {
    k.when(right == k.boolean(false), [&] {
      k.setStatus(KVC_DATA_CACHE);
    });
  };
  k.when(first == 0, [&] { tell(isRight()); });
  k.loop(first, count(), step, [&](Expr row) { tell(isRight(row)); });
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
  return slotsOf(k).placeOfNumber(name, sequence, head, firstSlot() + row);
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
