//===- CacheView.cpp - where rows lie --------------------------------------===//

#include "runtime/cache/CacheView.h"

#include "runtime/base/Boundary.h"
#include "runtime/base/DType.h"

#include <algorithm>

using namespace kvc::rt;

static int32_t at(const kvc_numbers &numbers, uint32_t s, uint32_t g) {
  return *placeOf(numbers, s, g);
}

uint64_t kvc::rt::slotsOf(const kvc_cache_view &view) {
  return view.kind == KVC_PAGED ? uint64_t(view.table_entries) * view.page_rows
                                : view.slots;
}

static bool stays(int64_t k, int64_t v) { return k == 0 || v == 0; }

bool kvc::rt::headsMeet(const kvc_cache_view &view) {
  bool oneTable = view.kind != KVC_PAGED || view.table.head_stride == 0;
  return oneTable && stays(view.k.head_stride, view.v.head_stride);
}

bool kvc::rt::sequencesMeet(const kvc_cache_view &view) {
  return view.kind == KVC_PAGED
             ? view.table.batch_stride == 0
             : stays(view.k.batch_stride, view.v.batch_stride);
}

CacheView::CacheView(const kvc_cache_view *from, const char *name, bool hasRows)
    : view(received(from, name)), name(name) {
  checkShape();
  if (view.members)
    table = received(view.members, "cache.members");
  checkPointers(hasRows);
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

int32_t &CacheView::memberCount(uint32_t s, uint32_t g) const {
  return table->counts[size_t(s) * view.kv_heads + g];
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

int64_t CacheView::endOfSlots(uint32_t s, uint32_t g) const {
  bool meet = headsMeet(view);
  auto most = int64_t(slots());
  if (meet && g + 1 < view.kv_heads)
    return std::min<int64_t>(most, offset(s, g + 1));
  if (sequencesMeet(view) && s + 1 < view.batch)
    return std::min<int64_t>(most, offset(s + 1, meet ? 0 : g));
  return most;
}
