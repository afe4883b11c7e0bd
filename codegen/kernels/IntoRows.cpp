//===- IntoRows.cpp - kept rows in a view that the call brings ------------===//

#include "codegen/kernels/IntoRows.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

void IntoRows::addArgs(std::vector<std::string> &args, const Shape &shape,
                       bool carries) {
  bool paged = shape.into == Into::Paged;
  for (const char *side : {"k", "v"}) {
    addParts(args, std::string("into_") + side,
             {"", "_batch", "_head", "_token"});
    ViewSlots::addArgs(args, "into_", paged, side);
  }
  addParts(args, "into_positions", {"", "_kind", "_batch", "_head", "_row"});
  if (paged)
    addParts(args, "into_positions", {"_page"});
  if (carries) {
    addParts(args, "carries", {""});
    addParts(args, "into_states",
             {"", "_kind", "_in_place", "_state", "_batch", "_head", "_row"});
    if (paged)
      addParts(args, "into_states", {"_page"});
  }
  addParts(args, "into",
           {"_tail", "_in_place", "_heads_meet", "_sequences_meet"});
  for (const char *arg :
       {"batch", "kv_heads", "counts", "index_capacity", "offsets", "status"})
    addParts(args, arg, {""});
  if (paged)
    addParts(args, "freed_pages", {"", "_kind"});
}

IntoRows::IntoRows(KernelBuilder &k, Expr sequence, Expr head,
                   std::function<Expr(Expr head)> rowsOf)
    : k(k), sequence(sequence), head(head), rowsOf(std::move(rowsOf)),
      paged(k.shape.into == Into::Paged), slots(k, "into_", paged),
      kept(keptOf(head)), first(firstOf(head)), end(endOf(head)) {}

Expr IntoRows::keptOf(Expr h) const {
  // Counts are at most index_capacity even where the status word says that the
  // policy asked for more.
  Buffer counts = k.buffer("counts", {k.arg("kv_heads")});
  return k.load(counts, {sequence, h}).toIndex().min(k.arg("index_capacity"));
}

Expr IntoRows::firstOf(Expr h) const {
  return slots.first(sequence, h) +
         atTail().select(rowsOf(h) - keptOf(h), k.index(0));
}

Expr IntoRows::endOf(Expr h) const {
  // Heads, or sequences, may lie in the same memory: the next one's rows begin where
  // its first slot says.
  Expr most = k.arg("into_slots");
  Expr headsMeet = k.arg("into_heads_meet") > 0;
  Expr sequencesMeet = k.arg("into_sequences_meet") > 0;
  Expr nextHead = headsMeet & (h + 1 < k.arg("kv_heads"));
  Expr nextSequence = (sequencesMeet & (sequence + 1 < k.arg("batch"))) &
                      (nextHead == k.boolean(false));
  // What is made once is made whether or not there is a next one: behind the last one
  // there is no number.
  Expr ofSequence = nextSequence.select(sequence + 1, sequence);
  Expr ofHead = nextHead.select(
      h + 1, (nextSequence & headsMeet).select(k.index(0), h));
  Expr next = slots.given(ofSequence, ofHead).min(most);
  return (nextHead | nextSequence).select(next, most);
}

/// Entries of a list are free where no row of any head that it serves is left in their
/// pages: those behind the kept rows, or, packed to the tail, those in front. A head is
/// alone with its entries, or the list is one for heads that lie in the same slots.
void IntoRows::storeFreedPages() {
  using Values = KernelBuilder::Values;
  Expr shared = k.arg("freed_pages_kind") == 2, zero = k.index(0);
  Expr from = shared.select(zero, head);
  Expr to = shared.select(k.arg("kv_heads"), head + 1);
  // The slots from the first to behind the last in which the heads had rows, and have
  // them now, and where others' slots begin.
  Expr far = k.arg("into_slots");
  Values all = k.loop(
      from, to, 1, {far, zero, far, zero, far}, [&](Expr h, ArrayRef<Expr> so) {
        auto extend = [&](Expr &begin, Expr &end, Expr first, Expr count) {
          begin = (count == 0).select(begin, begin.min(first));
          end = (count == 0).select(end, end.max(first + count));
        };
        Values next(so);
        extend(next[0], next[1], slots.first(sequence, h), rowsOf(h));
        extend(next[2], next[3], firstOf(h), keptOf(h));
        next[4] = so[4].min(endOf(h));
        return next;
      });
  Expr bits = k.arg("into_page_bits");
  auto whole = [&](Expr slot) { return slot >> bits; };
  auto begun = [&](Expr slot) {
    return (slot + (k.index(1) << bits) - 1) >> bits;
  };
  // In the page of the first row others' rows may lie in front of it.
  Expr others = ((k.arg("into_heads_meet") > 0) & (head > 0)) |
                ((k.arg("into_sequences_meet") > 0) & (sequence > 0));
  Expr first = others.select(begun(all[0]), whole(all[0]));
  Expr behind = begun(all[1]).min(whole(all[4]));
  first = atTail().select(first, first.max(begun(all[3])));
  behind = atTail().select(behind.min(whole(all[2])), behind);
  Expr none = (shared & (head > 0)) | (behind < first);
  Expr number = none.select(zero, behind - first);
  Buffer freed = k.buffer("freed_pages", {k.arg("kv_heads") * 2, k.index(2)});
  k.store(first.toI32(), freed, {sequence, head, zero});
  k.store(number.toI32(), freed, {sequence, head, k.index(1)});
}

Expr IntoRows::hasSlot(Expr row) const {
  return (row < kept) & (first + row < end);
}

Expr IntoRows::fits(Expr row) const {
  if (!paged)
    return hasSlot(row);
  Expr slot = first + row;
  return k.choose(
      hasSlot(row),
      [&] {
        return KernelBuilder::Values{slots.hasPage("k", sequence, head, slot) &
                                     slots.hasPage("v", sequence, head, slot)};
      },
      [&] { return KernelBuilder::Values{k.boolean(false)}; })[0];
}

void IntoRows::storeOffset() {
  k.store(first.toI32(), k.buffer("offsets", {k.arg("kv_heads")}),
          {sequence, head});
  k.when(first + kept > end, [&] { k.setStatus(KVC_DATA_CAPACITY); });
  Expr said = slots.given(sequence, head);
  Expr wrong = (said < k.index(0)) | (said > k.arg("into_slots"));
  if (k.shape.hasRows()) {
    // Rows that move must not be another head's, which writes over them.
    Expr rows = rowsOf(head);
    wrong = wrong | (isCache() & (rows > 0) & (said + rows > end));
  }
  k.when(wrong, [&] { k.setStatus(KVC_DATA_CACHE); });
  if (paged)
    k.when(k.arg("freed_pages_kind") > 0, [&] { storeFreedPages(); });
}

Expr IntoRows::stays(Expr row, Expr token, Expr slot) const {
  return isCache() & (slot + token == first + row);
}

void IntoRows::store(int side, const Place &place, Expr dim, Expr value) {
  std::string name = side == 0 ? "k" : "v";
  Buffer memory = k.buffer("into_" + name, {});
  Expr at = slots.place(name, "_token", name, sequence, head, place.slot, dim);
  k.storeVector(value, memory, {at});
}

Expr IntoRows::placeOfNumber(const std::string &name,
                             const Place &place) const {
  using Values = KernelBuilder::Values;
  std::string full = "into_" + name;
  return k.choose(
      k.arg(full + "_kind") == 1,
      [&] {
        return Values{sequence * k.arg(full + "_batch") +
                      head * k.arg(full + "_head") +
                      place.row * k.arg(full + "_row")};
      },
      [&] {
        return Values{slots.placeOfNumber(name, sequence, head, place.slot)};
      })[0];
}

void IntoRows::storePosition(Expr row, Expr position) {
  k.when(k.arg("into_positions_kind") > 0, [&] {
    k.store(position.toI32(), k.buffer("into_positions", {}),
            {placeOfNumber("positions", placeOf(row))});
  });
}

Expr IntoRows::placeOfState(int64_t state, const Place &place) const {
  return placeOfNumber("states", place) + k.arg("into_states_state") * state;
}

void IntoRows::storeState(int64_t state, const Place &place, Expr number) {
  k.store(number, k.buffer("into_states", {}), {placeOfState(state, place)});
}

Expr IntoRows::state(int64_t state, const Place &place) const {
  return k.load(k.buffer("into_states", {}), {placeOfState(state, place)});
}

Expr IntoRows::fromLast() const { return atTail(); }

Expr IntoRows::fromLast(const std::string &numbers) const {
  return atTail() & (k.arg("into_" + numbers + "_kind") == 2);
}
