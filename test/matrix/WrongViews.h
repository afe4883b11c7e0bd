//===- WrongViews.h - cache views that break a rule -----------------------===//
//
// Rules of kvc/cache.h that only kernels can look at where the cache lies on a device.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_MATRIX_WRONGVIEWS_H
#define KVC_TEST_MATRIX_WRONGVIEWS_H

#include "test/matrix/GuardedMemory.h"
#include "test/runtime/SmallCache.h"

#include <algorithm>

namespace kvc::test {

struct WrongView {
  const char *name;
  Layout layout;
  /// Where a kernel that believes the view would leave the memory.
  GuardedMemory::Edge edge;
  void (*change)(Laid &);
};

inline const WrongView wrongViews[] = {
    {"page behind the pool", Layout::PagesNHD, GuardedMemory::Edge::Back,
     [](Laid &laid) { laid.table[0] = int32_t(laid.view.pages); }},
    {"page in front of the pool", Layout::PagesNHD, GuardedMemory::Edge::Front,
     [](Laid &laid) { laid.table[0] = -1; }},
    {"count above the table", Layout::PagesNHD, GuardedMemory::Edge::Back,
     [](Laid &laid) { laid.counts.back() = 1 << 20; }},
    {"count above the slots", Layout::Compacted, GuardedMemory::Edge::Back,
     [](Laid &laid) { laid.counts.back() = 1 << 20; }},
    {"count below 0", Layout::Compacted, GuardedMemory::Edge::Front,
     [](Laid &laid) { laid.counts.front() = -1; }},
    {"offset behind the slots", Layout::Compacted, GuardedMemory::Edge::Back,
     [](Laid &laid) { laid.offsets.back() = int32_t(laid.view.slots) + 1; }},
    {"offset below 0", Layout::Compacted, GuardedMemory::Edge::Front,
     [](Laid &laid) { laid.offsets.front() = -2; }},
    {"positions that do not ascend", Layout::Compacted,
     GuardedMemory::Edge::Back,
     [](Laid &laid) { std::ranges::fill(laid.positions, 1); }},
    {"position below 0", Layout::Compacted, GuardedMemory::Edge::Back,
     [](Laid &laid) { std::ranges::fill(laid.positions, -5); }},
    {"length above max_tokens", Layout::Compacted, GuardedMemory::Edge::Back,
     [](Laid &laid) { laid.lengths.back() = 1 << 20; }},
    {"length of 0", Layout::Compacted, GuardedMemory::Edge::Back,
     [](Laid &laid) { laid.lengths.front() = 0; }},
};

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_WRONGVIEWS_H
