//===- CacheView.cpp - where rows lie, and that they lie there ------------===//

#include "runtime/cache/CacheView.h"

#include "runtime/base/Boundary.h"
#include "runtime/base/DType.h"

#include <cstdlib>

using namespace kvc::rt;

static int32_t *placeOf(const kvc_numbers &numbers, uint32_t s, uint32_t g) {
  return numbers.data + s * numbers.batch_stride + g * numbers.head_stride;
}

static int32_t at(const kvc_numbers &numbers, uint32_t s, uint32_t g) {
  return *placeOf(numbers, s, g);
}

CacheView::CacheView(const kvc_cache_view *from)
    : view(received(from, "cache")) {
  checkShape();
  if (view.members)
    table = received(view.members, "cache.members");
  checkPointers();
}

void CacheView::checkShape() const {
  if (uint32_t(view.kind) > KVC_PAGED)
    throw fail(KVC_BAD_ARGUMENT,
               "cache.kind must be 0 (dense), 1 (ragged) or 2 (paged), got {}",
               int(view.kind));
  if (uint32_t(view.dtype) > KVC_BF16)
    throw fail(KVC_BAD_ARGUMENT,
               "cache.dtype must be 0 (f32), 1 (f16) or 2 (bf16), got {}",
               int(view.dtype));
  auto oneTo = [](uint64_t value, uint64_t most, const char *name) {
    if (value == 0 || value > most)
      throw fail(KVC_EXCEEDS_LIMITS, "cache.{} must be 1 to {}, got {}", name,
                 most, value);
  };
  oneTo(view.batch, 65535, "batch");
  oneTo(view.kv_heads, KVC_MAX_KV_HEADS, "kv_heads");
  oneTo(view.head_dim, KVC_MAX_HEAD_DIM, "head_dim");
  if (!paged())
    return oneTo(view.slots, INT32_MAX, "slots");
  oneTo(view.pages, INT32_MAX, "pages");
  oneTo(view.page_rows, 1u << 30, "page_rows");
  if (view.page_rows & (view.page_rows - 1))
    throw fail(KVC_BAD_ARGUMENT,
               "cache.page_rows must be a power of two, got {}",
               view.page_rows);
  oneTo(view.table_entries, INT32_MAX, "table_entries");
}

void CacheView::checkPlane(const kvc_plane &plane, size_t bytes,
                           const char *name) const {
  if (reinterpret_cast<uintptr_t>(plane.data) % bytes)
    throw fail(KVC_MISALIGNED, "cache.{} must be aligned to {} bytes, got {}",
               name, bytes, plane.data);
}

void CacheView::checkPointers() const {
  notNull(view.k.data, "cache.k");
  notNull(view.v.data, "cache.v");
  notNull(view.counts.data, "cache.counts");
  checkPlane(view.k, dtypeBytes(view.dtype), "k");
  checkPlane(view.v, dtypeBytes(view.dtype), "v");
  checkPlane(view.positions, sizeof(int32_t), "positions");
  if (view.kind == KVC_RAGGED)
    notNull(view.offsets.data, "cache.offsets of a ragged cache");
  if (paged())
    notNull(view.table.data, "cache.table of a paged cache");
  if (!view.lengths && (view.positions.data || table ||
                        (view.counts.head_stride && view.kv_heads > 1)))
    throw fail(KVC_BAD_ARGUMENT,
               "cache.lengths must not be null where rows have positions or "
               "members, or heads counts of their own");
  if (!table)
    return;
  notNull(table->rows, "cache.members.rows");
  notNull(table->positions, "cache.members.positions");
  notNull(table->norms, "cache.members.norms");
  notNull(table->counts, "cache.members.counts");
  if (!table->capacity || table->capacity > INT32_MAX)
    throw fail(KVC_EXCEEDS_LIMITS,
               "cache.members.capacity must be 1 to {}, got {}", INT32_MAX,
               table->capacity);
}

uint64_t CacheView::slots() const {
  return paged() ? uint64_t(view.table_entries) * view.page_rows : view.slots;
}

uint64_t CacheView::mostKeys() const {
  return table ? table->capacity : std::min<uint64_t>(slots(), INT32_MAX);
}

int32_t CacheView::count(uint32_t s, uint32_t g) const {
  return at(view.counts, s, g);
}

void CacheView::setCount(uint32_t s, uint32_t g, int32_t value) const {
  *placeOf(view.counts, s, g) = value;
}

int32_t CacheView::length(uint32_t s) const {
  return view.lengths ? view.lengths[s] : count(s, 0);
}

int32_t CacheView::offset(uint32_t s, uint32_t g) const {
  return view.offsets.data ? at(view.offsets, s, g) : 0;
}

size_t CacheView::membersAt(uint32_t s, uint32_t g) const {
  return (size_t(s) * view.kv_heads + g) * table->capacity;
}

HeadPlane CacheView::plane(const kvc_plane &plane, const kvc_numbers &pages,
                           size_t bytes, uint32_t s, uint32_t g) const {
  auto size = int64_t(bytes);
  std::byte *base =
      static_cast<std::byte *>(plane.data) + g * plane.head_stride * size;
  if (!paged())
    return {base + s * plane.batch_stride * size, plane.row_stride * size,
            offset(s, g)};
  return {base,
          plane.row_stride * size,
          offset(s, g),
          placeOf(pages, s, g),
          plane.page_stride * size,
          view.page_rows};
}

HeadPlane CacheView::keys(uint32_t s, uint32_t g) const {
  return plane(view.k, view.table, dtypeBytes(view.dtype), s, g);
}

HeadPlane CacheView::values(uint32_t s, uint32_t g) const {
  return plane(view.v, view.v_table.data ? view.v_table : view.table,
               dtypeBytes(view.dtype), s, g);
}

HeadPlane CacheView::positions(uint32_t s, uint32_t g) const {
  const kvc_plane &p = view.positions;
  constexpr int64_t size = sizeof(int32_t);
  if (!p.data)
    return {};
  if (view.positions_by_slot)
    return plane(p, view.table, size, s, g);
  return {static_cast<std::byte *>(p.data) +
              (s * p.batch_stride + g * p.head_stride) * size,
          p.row_stride * size, 0};
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
void CacheView::checkPages(const kvc_numbers &pages, const char *name,
                           uint32_t s, uint32_t g, int64_t from,
                           int64_t to) const {
  const int32_t *list = placeOf(pages, s, g);
  for (int64_t i = from / view.page_rows; i <= (to - 1) / view.page_rows; ++i)
    if (uint32_t(list[i]) >= view.pages)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: entries of cache.{} must be 0 to {}, "
                 "got {} at {}",
                 s, g, name, view.pages - 1, list[i], i);
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
    int32_t position = *reinterpret_cast<const int32_t *>(places[uint32_t(r)]);
    if (position <= last || position >= length)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: positions must ascend from 0 to {}, "
                 "got {} behind {} at row {}",
                 s, g, length - 1, position, last, r);
    last = position;
  }
}

void CacheView::checkMembers(uint32_t s, uint32_t g) const {
  size_t first = membersAt(s, g);
  int32_t rows = count(s, g), length = this->length(s);
  int32_t entries = table->counts[size_t(s) * view.kv_heads + g];
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

void CacheView::checkRows() const {
  for (uint32_t s = 0; s < view.batch; ++s)
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

int64_t CacheView::endOfSlots(uint32_t s, uint32_t g) const {
  auto stays = [](int64_t k, int64_t v) { return k == 0 || v == 0; };
  bool oneTable = !paged() || view.table.head_stride == 0;
  bool headsMeet = oneTable && stays(view.k.head_stride, view.v.head_stride);
  bool sequencesMeet = paged()
                           ? view.table.batch_stride == 0
                           : stays(view.k.batch_stride, view.v.batch_stride);
  if (headsMeet && g + 1 < view.kv_heads)
    return offset(s, g + 1);
  if (sequencesMeet && s + 1 < view.batch)
    return offset(s + 1, headsMeet ? 0 : g);
  return int64_t(slots());
}

void CacheView::checkRoom(uint32_t rows) const {
  for (const kvc_plane *p : {&view.k, &view.v})
    if (std::abs(p->row_stride) < int64_t(view.head_dim) &&
        (!paged() || view.page_rows > 1))
      throw fail(KVC_BAD_ARGUMENT,
                 "rows that are written must not overlap: row_stride must be "
                 "at least head_dim ({}), got {}",
                 view.head_dim, p->row_stride);
  if (view.batch > 1 && view.counts.batch_stride == 0)
    throw fail(KVC_BAD_ARGUMENT, "counts that are written must not be shared: "
                                 "cache.counts.batch_stride must not be 0");
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < view.kv_heads; ++g) {
      int64_t first = offset(s, g), there = count(s, g),
              length = this->length(s);
      int64_t end = endOfSlots(s, g);
      if (first < 0 || there < 0 || first + there + rows > end)
        throw fail(KVC_EXCEEDS_LIMITS,
                   "sequence {}, head {}: offset, count and {} new rows must "
                   "be 0 or more and end in front of slot {}, got {} and {}",
                   s, g, rows, end, first, there);
      if (length < 0 || length + rows > INT32_MAX)
        throw fail(KVC_EXCEEDS_LIMITS,
                   "sequence {}: the length and {} new rows must be 0 to {}, "
                   "got {}",
                   s, rows, INT32_MAX, length);
      checkPages(s, g,
                 there + rows); // or a position would be read from anywhere
      HeadPlane places = positions(s, g);
      if (!places && !table && there != length)
        throw fail(
            KVC_BAD_ARGUMENT,
            "sequence {}, head {}: where rows have no positions, a count "
            "must be the length ({}), got {}",
            s, g, length, there);
      if (places && there) {
        int32_t last =
            *reinterpret_cast<const int32_t *>(places[uint32_t(there - 1)]);
        if (last < 0 || last >= length)
          throw fail(KVC_BAD_ARGUMENT,
                     "sequence {}, head {}: the last position must be below "
                     "the length ({}), got {}",
                     s, g, length, last);
      }
      if (table) {
        int64_t entries = table->counts[size_t(s) * view.kv_heads + g];
        if (entries < 0 || entries + rows > table->capacity)
          throw fail(KVC_EXCEEDS_LIMITS,
                     "sequence {}, head {}: members and {} new ones must be 0 "
                     "to {} (their capacity), got {}",
                     s, g, rows, table->capacity, entries);
      }
    }
  if (paged())
    checkWrittenPages(rows);
}
