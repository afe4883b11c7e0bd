//===- LaidRows.h - rows of a layer in slots or pages of a device ---------===//

#ifndef KVC_EXECUTOR_EVICTION_LAIDROWS_H
#define KVC_EXECUTOR_EVICTION_LAIDROWS_H

#include "executor/eviction/Arena.h"
#include "executor/io/Bytes.h"
#include "kvc/cache.h"

#include <cstdint>
#include <vector>

namespace kvc::rt {

/// Heads of all sequences behind each other, each from a page of its own on; pages in
/// descending order, so that no slot is where its number says.
class LaidRows {
public:
  /// `counts`: rows of each head, [batch * heads]. `pageRows`: slots of a page, a power
  /// of two; 0: no pages. Throws Failure.
  LaidRows(Arena &arena, std::vector<int32_t> counts, size_t heads,
           uint32_t pageRows);

  /// Memory for one row of `bytes` in each slot. `data`: for each sequence its heads'
  /// rows, head after head, or null.
  std::byte *place(const std::vector<const void *> &data, size_t bytes) const;
  /// Rows of `bytes` that lie in the memory of place(): of each head of a sequence
  /// `counts` from its slot `offsets` on, head after head.
  Bytes gather(const void *memory, size_t bytes,
                                size_t sequence, const int32_t *counts,
                                const int32_t *offsets) const;

  /// Sets what a view says of counts, offsets and pages.
  void describe(kvc_cache_view &view) const;
  kvc_plane plane(void *memory, int64_t elements) const {
    return {memory, 0, 0, elements, elements * int64_t(page)};
  }
  /// Entries whose pages hold rows.
  size_t pagesWithRows() const { return used; }

private:
  Arena &arena;
  std::vector<int32_t> counts, first, table;
  size_t heads, page, pages = 0, entries = 1, used = 0;
  bool paged;

  /// Of a head among all of the batch, from its first slot on.
  size_t slotOf(size_t head, size_t row) const;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_LAIDROWS_H
