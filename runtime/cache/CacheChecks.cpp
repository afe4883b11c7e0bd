//===- CacheChecks.cpp - that rows lie where a view says ------------------===//

#include "runtime/base/Boundary.h"
#include "runtime/base/DType.h"
#include "runtime/cache/CacheView.h"

#include <algorithm>

using namespace kvc::rt;

static int32_t positionAt(const HeadPlane &places, uint32_t row) {
  return *reinterpret_cast<const int32_t *>(places[row]);
}

void CacheView::checkShape() const {
  if (uint32_t(numberOf(view.kind)) > KVC_PAGED)
    throw fail(KVC_BAD_ARGUMENT,
               "{}.kind must be 0 (dense), 1 (ragged) or 2 (paged), got {}",
               name, numberOf(view.kind));
  if (uint32_t(numberOf(view.dtype)) > KVC_BF16)
    throw fail(KVC_BAD_ARGUMENT,
               "{}.dtype must be 0 (f32), 1 (f16) or 2 (bf16), got {}", name,
               numberOf(view.dtype));
  auto oneTo = [&](uint64_t value, uint64_t most, const char *field) {
    if (value == 0 || value > most)
      throw fail(KVC_EXCEEDS_LIMITS, "{}.{} must be 1 to {}, got {}", name,
                 field, most, value);
  };
  oneTo(view.batch, 65535, "batch");
  oneTo(view.kv_heads, KVC_MAX_KV_HEADS, "kv_heads");
  oneTo(view.head_dim, KVC_MAX_HEAD_DIM, "head_dim");
  if (!paged())
    return oneTo(view.slots, INT32_MAX, "slots");
  oneTo(view.pages, INT32_MAX, "pages");
  oneTo(view.page_rows, 1u << 30, "page_rows");
  if (view.page_rows & (view.page_rows - 1))
    throw fail(KVC_BAD_ARGUMENT, "{}.page_rows must be a power of two, got {}",
               name, view.page_rows);
  oneTo(view.table_entries, INT32_MAX, "table_entries");
}

void CacheView::checkAligned(const void *data, size_t bytes,
                             const char *field) const {
  if (reinterpret_cast<uintptr_t>(data) % bytes)
    throw fail(KVC_MISALIGNED, "{}.{} must be aligned to {} bytes, got {}",
               name, field, bytes, data);
}

void CacheView::present(const void *pointer, const char *field) const {
  if (!pointer)
    throw fail(KVC_BAD_ARGUMENT, "{}.{} must not be null", name, field);
}

void CacheView::checkPointers(bool hasRows) const {
  present(view.k.data, "k");
  present(view.v.data, "v");
  if (hasRows)
    present(view.counts.data, "counts");
  checkAligned(view.k.data, dtypeBytes(view.dtype), "k");
  checkAligned(view.v.data, dtypeBytes(view.dtype), "v");
  checkAligned(view.positions.data, sizeof(int32_t), "positions");
  checkAligned(view.counts.data, sizeof(int32_t), "counts");
  checkAligned(view.offsets.data, sizeof(int32_t), "offsets");
  checkAligned(view.lengths, sizeof(int32_t), "lengths");
  checkAligned(view.table.data, sizeof(int32_t), "table");
  checkAligned(view.v_table.data, sizeof(int32_t), "v_table");
  if (view.kind == KVC_RAGGED)
    present(view.offsets.data, "offsets of a ragged cache");
  if (paged())
    present(view.table.data, "table of a paged cache");
  if (hasRows && !view.lengths &&
      (view.positions.data || table ||
       (view.counts.head_stride && view.kv_heads > 1)))
    throw fail(KVC_BAD_ARGUMENT,
               "cache.lengths must not be null where rows have positions or "
               "members, or heads counts of their own");
  if (!table)
    return;
  for (auto [data, field] :
       {std::pair<const void *, const char *>{table->rows, "members.rows"},
        {table->positions, "members.positions"},
        {table->norms, "members.norms"},
        {table->counts, "members.counts"}}) {
    present(data, field);
    checkAligned(data, sizeof(int32_t), field);
  }
  if (!table->capacity || table->capacity > INT32_MAX)
    throw fail(KVC_EXCEEDS_LIMITS,
               "cache.members.capacity must be 1 to {}, got {}", INT32_MAX,
               table->capacity);
}

void CacheView::checkPages(uint32_t s, uint32_t g, int64_t rows) const {
  int64_t from = offset(s, g), to = from + rows;
  if (!paged() || from == to)
    return;
  checkPages(view.table, "table", s, g, from, to);
  if (view.v_table.data)
    checkPages(view.v_table, "v_table", s, g, from, to);
}

/// Of slots [from, to).
void CacheView::checkPages(const kvc_numbers &pages, const char *field,
                           uint32_t s, uint32_t g, int64_t from,
                           int64_t to) const {
  const int32_t *list = placeOf(pages, s, g);
  for (int64_t i = from / view.page_rows; i <= (to - 1) / view.page_rows; ++i)
    if (uint32_t(list[i]) >= view.pages)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: entries of {}.{} must be 0 to {}, got "
                 "{} at {}",
                 s, g, name, field, view.pages - 1, list[i], i);
  checkListOnce(pages, field, s, g, from / view.page_rows,
                (to - 1) / view.page_rows + 1);
}

void CacheView::checkPositions(uint32_t s, uint32_t g) const {
  HeadPlane places = positions(s, g);
  int32_t rows = count(s, g), length = this->length(s);
  if (!places) {
    if (!table && rows > length)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: a count must be at most the length "
                 "({}) where rows have no positions, got {}",
                 s, g, length, rows);
    return;
  }
  for (int32_t r = 0, last = -1; r < rows; ++r) {
    int32_t position = positionAt(places, uint32_t(r));
    if (position <= last || position >= length)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: positions must ascend from 0 to {}, "
                 "got {} at row {}",
                 s, g, length - 1, inOrder(position, last), r);
    last = position;
  }
}

void CacheView::checkMembers(uint32_t s, uint32_t g) const {
  size_t first = membersAt(s, g);
  int32_t rows = count(s, g), length = this->length(s);
  int32_t entries = memberCount(s, g);
  if (entries < 0 || uint32_t(entries) > table->capacity)
    throw fail(KVC_EXCEEDS_LIMITS,
               "sequence {}, head {}: members must be 0 to {} (their "
               "capacity), got {}",
               s, g, table->capacity, entries);
  for (size_t i = first; i < first + size_t(entries); ++i) {
    if (uint32_t(table->rows[i]) >= uint32_t(rows))
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: a member's row must be below the count "
                 "({}), got {}",
                 s, g, rows, table->rows[i]);
    if (table->positions[i] < 0 || table->positions[i] >= length)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: a member's position must be 0 to {}, "
                 "got {}",
                 s, g, length - 1, table->positions[i]);
  }
}

void CacheView::checkMemberOrder(uint32_t end) const {
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < view.kv_heads; ++g) {
      const int32_t *position = table->positions + membersAt(s, g);
      for (int32_t i = 0, last = -1; i < memberCount(s, g); ++i) {
        if (position[i] <= last || uint32_t(position[i]) >= end)
          throw fail(KVC_BAD_ARGUMENT,
                     "sequence {}, head {}: members' positions must ascend "
                     "from 0 to {}, got {}",
                     s, g, std::min<int64_t>(length(s), end) - 1,
                     inOrder(position[i], last));
        last = position[i];
      }
    }
}

void CacheView::checkRows() const {
  for (uint32_t s = 0; s < view.batch; ++s) {
    // Where there are none, T is a count, which is looked at below.
    if (view.lengths && view.lengths[s] < 0)
      throw fail(KVC_EXCEEDS_LIMITS,
                 "sequence {}: the length must be 0 or more, got {}", s,
                 view.lengths[s]);
    for (uint32_t g = 0; g < view.kv_heads; ++g) {
      int64_t first = offset(s, g), rows = count(s, g);
      if (first < 0 || rows < 0 || uint64_t(first + rows) > slots())
        throw fail(KVC_EXCEEDS_LIMITS,
                   "sequence {}, head {}: offset and count must be 0 or more "
                   "and end within {} slots, got {} and {}",
                   s, g, slots(), first, rows);
      checkPages(s, g, rows);
      checkPositions(s, g);
      if (table)
        checkMembers(s, g);
    }
  }
}

void CacheView::checkStarts() const {
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < view.kv_heads; ++g)
      if (int64_t first = offset(s, g); first < 0 || uint64_t(first) > slots())
        throw fail(
            KVC_EXCEEDS_LIMITS,
            "sequence {}, head {}: offsets of {} must be 0 to {}, got {}", s, g,
            name, slots(), first);
}

void CacheView::checkApart() const {
  for (const kvc_plane *p : {&view.k, &view.v})
    if (p->row_stride < int64_t(view.head_dim) &&
        p->row_stride > -int64_t(view.head_dim) &&
        (!paged() || view.page_rows > 1))
      throw fail(KVC_BAD_ARGUMENT,
                 "rows that are written must not overlap: row_stride must be "
                 "at least head_dim ({}), got {}",
                 view.head_dim, p->row_stride);
  // By slot, a page of one slot has one position.
  bool onePerPage = view.positions_by_slot && paged() && view.page_rows == 1;
  if (view.positions.data && view.positions.row_stride == 0 && !onePerPage)
    throw fail(KVC_BAD_ARGUMENT,
               "positions that are written must not be shared: "
               "{}.positions.row_stride must not be 0",
               name);
}

void CacheView::checkSharedCounts() const {
  if (view.batch > 1 && view.counts.batch_stride == 0)
    throw fail(KVC_BAD_ARGUMENT, "counts that are written must not be shared: "
                                 "cache.counts.batch_stride must not be 0");
}

void CacheView::checkSharedPositions() const {
  if (!view.positions.data || view.positions_by_slot)
    return;
  bool heads = view.positions.head_stride != 0 || view.kv_heads == 1 ||
               view.counts.head_stride == 0;
  bool sequences = view.positions.batch_stride != 0 || view.batch == 1;
  if (!heads || !sequences)
    throw fail(KVC_BAD_ARGUMENT,
               "positions that are written must not be shared: "
               "cache.positions.{} must not be 0",
               heads ? "batch_stride" : "head_stride");
}

void CacheView::checkWritable() const {
  checkApart();
  checkSharedCounts();
  checkSharedPositions();
}

void CacheView::checkOwnRows() const {
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < view.kv_heads; ++g) {
      int64_t first = offset(s, g), rows = count(s, g), end = endOfSlots(s, g);
      if (rows > 0 && first + rows > end)
        throw fail(
            KVC_EXCEEDS_LIMITS,
            "sequence {}, head {}: rows that are moved must end in front "
            "of slot {}, got offset {} and count {}",
            s, g, end, first, rows);
    }
  if (paged())
    checkOwnPages();
}

void CacheView::checkRoom(uint32_t rows) const {
  checkWritable();
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < view.kv_heads; ++g)
      checkRoom(s, g, rows);
  if (paged())
    checkWrittenPages(rows);
}

void CacheView::checkRoom(uint32_t s, uint32_t g, uint32_t rows) const {
  int64_t first = offset(s, g), there = count(s, g);
  int64_t length = this->length(s), end = endOfSlots(s, g);
  if (first < 0 || there < 0 || first + there + rows > end)
    throw fail(KVC_EXCEEDS_LIMITS,
               "sequence {}, head {}: offset, count and {} new rows must be 0 "
               "or more and end in front of slot {}, got {} and {}",
               s, g, rows, end, first, there);
  if (length < 0 || length + rows > INT32_MAX)
    throw fail(
        KVC_EXCEEDS_LIMITS,
        "sequence {}: the length and {} new rows must be 0 to {}, got {}", s,
        rows, INT32_MAX, length);
  // Or a position would be read from anywhere.
  checkPages(s, g, there + rows);
  HeadPlane places = positions(s, g);
  if (!places && !table && there != length)
    throw fail(KVC_BAD_ARGUMENT,
               "sequence {}, head {}: where rows have no positions, a count "
               "must be the length ({}), got {}",
               s, g, length, there);
  if (places && there) {
    int32_t last = positionAt(places, uint32_t(there - 1));
    if (last < 0 || last >= length)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: the last position must be below the "
                 "length ({}), got {}",
                 s, g, length, last);
  }
  if (!table)
    return;
  int64_t entries = memberCount(s, g);
  if (entries < 0 || entries + rows > table->capacity)
    throw fail(KVC_EXCEEDS_LIMITS,
               "sequence {}, head {}: members and {} new ones must be 0 to {} "
               "(their capacity), got {}",
               s, g, rows, table->capacity, entries);
}
