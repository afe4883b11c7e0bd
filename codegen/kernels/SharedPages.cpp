//===- SharedPages.cpp - a page that rows move in is one list's -----------===//

#include "codegen/kernels/SharedPages.h"

#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

/// Of the pages that are marked at a time; a power of two.
static constexpr int64_t markWords = 4096;
/// Entries of a lane.
static constexpr int64_t inFlight = 16;

SharedPages::SharedPages(KernelBuilder &k, Expr sequence, Expr head,
                         int64_t threads, RowsOf rowsOf)
    : k(k), sequence(sequence), head(head), threads(threads),
      rowsOf(std::move(rowsOf)), slots(k, "", /*paged=*/true),
      marks(k.shared(k.b.getI32Type(), markWords)),
      firsts(k.shared(k.b.getI32Type(), threads)),
      ends(k.shared(k.b.getI32Type(), threads)) {}

SharedPages::List SharedPages::listOf(Expr number) {
  Expr heads = k.arg("kv_heads");
  return {headsApart().select(number, number / heads),
          headsApart().select(head, number % heads)};
}

/// The first slot behind the rows that lie in front of the list's in the same entries: of
/// former heads and sequences that have slots of one table.
Expr SharedPages::endOfFormer(const List &list) {
  Expr heads = k.arg("kv_heads"), zero = k.index(0);
  Expr headsMeet = k.arg("into_heads_meet") > 0;
  Expr sequencesMeet = k.arg("into_sequences_meet") > 0;
  Expr own = list.sequence * heads + list.head;
  Expr ofHead = headsMeet.select(zero, list.head);
  Expr from = sequencesMeet.select(
      ofHead, headsMeet.select(list.sequence * heads, own));
  Expr step = headsMeet.select(k.index(1), heads);
  return k.fold(from, own, step, zero, [&](Expr other, Expr end) {
    HeadRows rows = rowsOf(other / heads, other % heads);
    Expr count = rows.count();
    return (count == 0).select(end, end.max(rows.firstSlot() + count));
  });
}

/// Writes the first entry of a list that has rows of it, and the one behind its last. A
/// page that begins with rows of a former list is that one's.
void SharedPages::open(Expr number, Expr place) {
  List list = listOf(number);
  HeadRows rows = rowsOf(list.sequence, list.head);
  Expr bits = k.arg("page_bits"), slot = rows.firstSlot();
  Expr count = rows.count(), end = slot + count;
  Expr entry = slot >> bits, page = entry << bits;
  using Values = KernelBuilder::Values;
  Expr former = k.choose(
      slot > page, [&] { return Values{endOfFormer(list)}; },
      [&] { return Values{k.index(0)}; })[0];
  Expr first = (former > page).select(entry + 1, entry);
  Expr behind = (count == 0).select(first, ((end - 1) >> bits) + 1);
  k.store(first.toI32(), firsts, {place});
  k.store(behind.toI32(), ends, {place});
}

/// Marks the pages `first` to `first` + `pages` that are in the list, whose entries lie
/// at `place`. Warps take turns at its parts.
void SharedPages::mark(const char *side, const List &list, Expr place,
                       Expr first, Expr pages) {
  constexpr int64_t part = 32 * inFlight;
  int64_t warps = threads / 32;
  std::string table = std::string(side) + "_table";
  Buffer entries =
      k.buffer(table, {k.arg(table + "_batch"), k.arg(table + "_head")});
  Expr end = k.load(ends, {place}).toIndex();
  Expr turn = (k.warp() + place) % warps;
  Expr from = k.load(firsts, {place}).toIndex() + turn * part + k.lane();
  k.loop(from, end, warps * part, [&](Expr entry) {
    SmallVector<Expr> found;
    for (int64_t i = 0; i < inFlight; ++i) {
      Expr at = entry + 32 * i;
      Expr page =
          k.load(entries, {list.sequence, list.head, at.min(end - 1)}) - first;
      found.push_back((at < end).select(page, k.i32(-1)));
    }
    for (Expr page : found)
      k.when((page >= k.i32(0)) & (page < pages), [&] {
        // Pages behind one another have marks in words behind one another: lanes do not
        // wait for each other. Until a mark is found, words are sums of different bits.
        Expr bit = k.i32(1) << (page / markWords);
        Expr before = k.atomicAdd(bit, marks, {(page % markWords).toIndex()});
        k.when((before & bit) == bit, [&] { k.setStatus(KVC_DATA_CACHE); });
      });
  });
}

/// Marks the pages `first` to `first` + `pages` of pool `pool` in all lists.
void SharedPages::markLists(Expr pool, Expr first, Expr pages) {
  Expr kind = k.arg("into_pools"), batch = k.arg("batch");
  Expr lists = headsApart().select(batch, batch * k.arg("kv_heads"));
  k.loop(k.thread(), k.index(markWords), threads,
         [&](Expr word) { k.store(k.i32(0), marks, {word}); });
  k.loop(0, lists, threads, [&](Expr from) {
    Expr number = from + k.thread();
    k.barrier();
    k.when(number < lists, [&] { open(number, k.thread()); });
    k.barrier();
    k.loop(0, (lists - from).min(k.index(threads)), 1, [&](Expr place) {
      List list = listOf(from + place);
      k.when(pool == 0, [&] { mark("k", list, place, first, pages); });
      k.when(kind == pool + 2, [&] { mark("v", list, place, first, pages); });
    });
  });
  k.barrier();
}

void SharedPages::tell() {
  Expr kind = k.arg("into_pools"), heads = k.arg("kv_heads");
  Expr one = k.index(1), two = k.index(2);
  Expr pools = (kind == 3).select(two, kind.min(one));
  Expr blocks = headsApart().select(k.arg("batch"), k.arg("batch") * heads);
  Expr own = headsApart().select(sequence, sequence * heads + head);
  Expr count = k.arg("page_count"), share = (count + blocks - 1) / blocks;
  Expr first = own * share, end = (first + share).min(count);
  constexpr int64_t most = markWords * 32;
  k.loop(0, pools, 1, [&](Expr pool) {
    k.loop(first, end, most, [&](Expr page) {
      Expr pages = (end - page).min(k.index(most));
      markLists(pool, page.toI32(), pages.toI32());
    });
  });
}
