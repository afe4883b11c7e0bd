//===- LaidRows.cpp - rows of a layer in slots or pages of a device -------===//

#include "executor/eviction/LaidRows.h"

#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::rt;

LaidRows::LaidRows(Arena &arena, std::vector<int32_t> rows, size_t heads,
                   uint32_t pageRows)
    : arena(arena), counts(std::move(rows)), heads(heads),
      page(pageRows ? pageRows : 1), paged(pageRows) {
  for (int32_t count : counts) {
    size_t own = (size_t(count) + page - 1) / page;
    first.push_back(int32_t(used));
    used += own;
    entries = std::max(entries, own);
  }
  pages = std::max<size_t>(used, 1);
  if (pages * page > INT32_MAX)
    throw fail(KVC_EXCEEDS_LIMITS,
               "a cache must have below 2^31 slots, got {} pages of {}", pages,
               page);
  for (size_t head = 0; head < counts.size(); ++head)
    for (size_t i = 0; i < entries; ++i)
      table.push_back(int32_t(
          pages - 1 - std::min<size_t>(size_t(first[head]) + i, pages - 1)));
}

size_t LaidRows::slotOf(size_t head, size_t row) const {
  return paged ? size_t(table[head * entries + row / page]) * page + row % page
               : size_t(first[head]) + row;
}

std::byte *LaidRows::place(const std::vector<const void *> &data,
                           size_t bytes) const {
  auto *memory = arena.zeros<std::byte>(pages * page * bytes);
  for (size_t s = 0; s < data.size(); ++s) {
    auto *next = static_cast<const std::byte *>(data[s]);
    for (size_t head = s * heads; next && head < (s + 1) * heads; ++head)
      for (size_t r = 0, rows = size_t(counts[head]), together; r < rows;
           r += together) {
        together = std::min(paged ? page : rows, rows - r);
        arena.device.upload(memory + slotOf(head, r) * bytes, next,
                            together * bytes);
        next += together * bytes;
      }
  }
  return memory;
}

Bytes LaidRows::gather(const void *memory, size_t bytes,
                                        size_t sequence, const int32_t *kept,
                                        const int32_t *offsets) const {
  std::vector<std::byte> all = arena.download(
      static_cast<const std::byte *>(memory), pages * page * bytes);
  Bytes rows;
  for (size_t h = 0; h < heads; ++h) {
    size_t head = sequence * heads + h;
    // Without pages offsets are slots of the one memory.
    size_t from = size_t(offsets[h]) - (paged ? 0 : size_t(first[head]));
    for (size_t r = 0; r < size_t(kept[h]); ++r) {
      auto row = all.begin() + ptrdiff_t(slotOf(head, from + r) * bytes);
      rows.insert(rows.end(), row, row + ptrdiff_t(bytes));
    }
  }
  return rows;
}

void LaidRows::describe(kvc_cache_view &view) const {
  auto perHead = int64_t(heads);
  view.counts = {arena.upload(counts), perHead, 1};
  if (paged) {
    view.table = {arena.upload(table), perHead * int64_t(entries),
                  int64_t(entries)};
    view.table_entries = uint32_t(entries);
    view.page_rows = uint32_t(page);
    view.pages = uint32_t(pages);
  } else {
    view.offsets = {arena.upload(first), perHead, 1};
    view.slots = uint32_t(pages);
  }
}
