//===- Passages.cpp - a policy's rows, put into views by a test -----------===//

#include "test/matrix/Passages.h"

#include "kvc/artifact.h"
#include "test/matrix/ExpectFaults.h"
#include "test/matrix/GuardedMemory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

using namespace kvc;
using namespace kvc::test;

void kvc::test::expectSame(const RowsResult &a, const RowsResult &b) {
  expectNone(compareBytes(a, b));
}

void kvc::test::judgePassage(kvc_module *module, const Passage &passage,
                             const Cache &cache, const Cache *raw,
                             const RowsInput &input, const RowsResult &want,
                             uint32_t seed) {
  const bool all = std::getenv("KVC_ALL_CASES");
  for (bool tail : {false, true})
    for (bool inPlace : {false, true}) {
      Place place = {passage.cache, passage.into, inPlace, tail,
                     seed * 2 + tail};
      if ((inPlace && !place.canBeInPlace()) || (tail != seed % 2 && !all))
        continue;
      SCOPED_TRACE(place.text());
      expectNone(judgePlace(module, place, cache, raw, input, want));
    }
}

void kvc::test::judgeWrongInto(kvc_module *module, const Passage &passage,
                               const Cache &cache, const Cache *raw,
                               const RowsInput &input) {
  bool paged = passage.into == KVC_PAGED;
  Cache withoutRows = cache;
  for (Head &head : withoutRows.all)
    head = {};
  auto call = [&](std::function<void(Laid &)> change, uint32_t room,
                  int32_t status) {
    Layout layout = passage.cache == KVC_DENSE   ? Layout::HeadsFirst
                    : passage.cache == KVC_PAGED ? Layout::PagesNHD
                                                 : Layout::Compacted;
    Laid from(cache, layout, 4),
        into(withoutRows, paged ? Layout::PagesNHD : Layout::HeadsFirst, 4,
             room);
    std::unique_ptr<Laid> rawLaid =
        raw ? std::make_unique<Laid>(*raw, layout, 4) : nullptr;
    change(into);
    GuardedMemory memory(into.memory, GuardedMemory::Edge::Back);
    for (kvc_plane *plane : {&into.view.k, &into.view.v})
      plane->data = memory.data + (static_cast<std::byte *>(plane->data) -
                                   into.memory.data());
    Placement placement = {&into, false, {}};
    RowsResult got = evictRows(module, from, rawLaid.get(), input,
                               passage.cache == KVC_DENSE, &placement);
    EXPECT_TRUE(got.status & status) << "status " << got.status;
  };
  {
    SCOPED_TRACE("slots for one row");
    call([](Laid &into) { into.view.slots = into.view.table_entries = 1; }, 1,
         KVC_DATA_CAPACITY);
  }
  {
    SCOPED_TRACE("offset below 0");
    call(
        [](Laid &into) {
          into.offsets.assign(into.view.batch * into.view.kv_heads, 0);
          into.offsets.front() = -2;
          into.view.offsets = {into.offsets.data(), into.view.kv_heads, 1};
        },
        input.tokens, KVC_DATA_CACHE);
  }
  if (passage.cache == KVC_RAGGED && !paged) {
    SCOPED_TRACE("heads that overlap, in place");
    Laid laid(cache, Layout::Flat, 4);
    std::unique_ptr<Laid> rawLaid =
        raw ? std::make_unique<Laid>(*raw, Layout::Flat, 4) : nullptr;
    for (size_t i = 0; i + 1 < laid.offsets.size(); ++i)
      if (laid.counts[i])
        laid.offsets[i + 1] = laid.offsets[i] + laid.counts[i] - 1;
    Placement placement = {&laid, false, {}};
    RowsResult got =
        evictRows(module, laid, rawLaid.get(), input, false, &placement);
    EXPECT_TRUE(got.status & KVC_DATA_CACHE) << "status " << got.status;
  }
  if (paged) {
    SCOPED_TRACE("page behind the pool");
    call(
        [](Laid &into) {
          std::ranges::fill(into.table, int32_t(into.view.pages));
        },
        input.tokens, KVC_DATA_CACHE);
  }
}
