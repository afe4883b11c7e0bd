//===- SmallCache.cpp - one cache, laid out in every way an engine has ----===//

#include "test/runtime/SmallCache.h"

#include "runtime/base/DType.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace kvc::test;
using namespace kvc::rt;

bool Cache::even() const {
  for (uint32_t s = 0; s < batch; ++s)
    for (uint32_t g = 0; g < heads; ++g)
      if (head(s, g).k.size() != head(s, 0).k.size())
        return false;
  return true;
}

std::vector<float> kvc::test::ropeOf(uint32_t positions, uint32_t dim) {
  std::vector<float> table;
  for (uint32_t p = 0; p < positions; ++p)
    for (uint32_t i = 0; i < dim / 2; ++i) {
      double angle = p * std::pow(1e4, -2.0 * i / dim);
      table.push_back(float(std::cos(angle)));
      table.push_back(float(std::sin(angle)));
    }
  return table;
}

std::vector<float> kvc::test::randomRow(Random &random, uint32_t dim,
                                        kvc_dtype dtype) {
  std::normal_distribution<float> normal;
  std::vector<float> row(dim);
  for (float &x : row)
    x = normal(random);
  return widened(narrow(row.data(), dim, dtype).data(), dim, dtype);
}

static Cache cacheOf(Random &random, uint32_t batch, uint32_t heads,
                     uint32_t dim, kvc_dtype dtype, int32_t most, bool whole) {
  Cache cache = {batch, heads, dim, dtype, {}, {}};
  for (uint32_t s = 0; s < batch; ++s) {
    int32_t length = int32_t(random() % uint32_t(most)) + 1;
    cache.lengths.push_back(length);
    for (uint32_t g = 0; g < heads; ++g) {
      Head head;
      uint32_t kept = random() % 4; // of four tokens
      for (int32_t t = 0; t < length; ++t)
        if (whole || random() % 4 < kept) {
          head.positions.push_back(t);
          head.k.push_back(randomRow(random, dim, dtype));
          head.v.push_back(randomRow(random, dim, dtype));
        }
      cache.all.push_back(head);
    }
  }
  return cache;
}

Cache kvc::test::randomCache(Random &random, uint32_t batch, uint32_t heads,
                             uint32_t dim, kvc_dtype dtype, int32_t most) {
  return cacheOf(random, batch, heads, dim, dtype, most, false);
}

Cache kvc::test::wholeCache(Random &random, uint32_t batch, uint32_t heads,
                            uint32_t dim, kvc_dtype dtype, int32_t most) {
  return cacheOf(random, batch, heads, dim, dtype, most, true);
}

Laid::Laid(const Cache &cache, Layout layout, uint32_t pageRows, uint32_t room,
           uint32_t seed) {
  uint32_t batch = cache.batch, heads = cache.heads, d = cache.dim, largest = 0;
  int64_t dim = d, all = 0, ofSequence = 0;
  Random random(seed);
  lengths = cache.lengths;
  for (uint32_t s = 0; s < batch; ++s) {
    int64_t sum = 0;
    for (uint32_t g = 0; g < heads; ++g) {
      counts.push_back(int32_t(cache.head(s, g).k.size()));
      largest = std::max(largest, uint32_t(counts.back()));
      sum += counts.back() + room;
    }
    all += sum;
    ofSequence = std::max(ofSequence, sum);
  }
  view.struct_size = sizeof view;
  view.dtype = cache.dtype;
  view.batch = batch;
  view.kv_heads = heads;
  view.head_dim = d;
  view.counts = {counts.data(), heads, 1};
  view.lengths = lengths.data();
  uint32_t slots = largest + room + 1;
  int64_t rows = 0; // of K, and of V: both lie in `memory`
  int64_t vAt = -1; // elements
  view.kind = isPaged(layout) ? KVC_PAGED : KVC_DENSE;
  int64_t pageElements = dim * pageRows * heads;
  switch (layout) {
  case Layout::HeadsFirst:
    view.k = {nullptr, heads * slots * dim, slots * dim, dim, 0};
    rows = int64_t(batch) * heads * slots;
    break;
  case Layout::TokensFirst:
    view.k = {nullptr, slots * heads * dim, dim, heads * dim, 0};
    rows = int64_t(batch) * heads * slots;
    break;
  case Layout::LeftPadded:
    slots += 5;
    view.k = {nullptr, heads * slots * dim, slots * dim, dim, 0};
    rows = int64_t(batch) * heads * slots;
    for (int32_t count : counts)
      offsets.push_back(int32_t(slots - room) - count);
    break;
  case Layout::Compacted:
  case Layout::Flat: {
    bool flat = layout == Layout::Flat;
    view.kind = KVC_RAGGED;
    ofSequence = std::max<int64_t>(ofSequence, 1); // no row is a cache, too
    rows = flat ? std::max<int64_t>(all, 1) : ofSequence * batch;
    slots = uint32_t(flat ? rows : ofSequence);
    view.k = {nullptr, flat ? 0 : ofSequence * dim, 0, dim, 0};
    break;
  }
  case Layout::PagesHND:
    view.k = {nullptr, 0, pageRows * 2 * dim, 2 * dim, 2 * pageElements};
    vAt = dim;
    break;
  case Layout::PagesByHead:
    pageElements = dim * pageRows;
    [[fallthrough]];
  case Layout::PagesRagged:
    pageElements = dim * pageRows;
    view.k = {nullptr, 0, 0, dim, pageElements};
    break;
  case Layout::PagesNHD:
  case Layout::PagesKV:
  case Layout::PagesList:
    view.k = {nullptr, 0, dim, heads * dim, pageElements};
    break;
  }
  view.slots = slots;
  bool behind = view.kind == KVC_RAGGED || layout == Layout::PagesRagged;
  for (int32_t i = 0, at = 0; behind && i < int32_t(batch * heads); ++i) {
    if (i % int32_t(heads) == 0 && layout != Layout::Flat)
      at = 0;
    offsets.push_back(at);
    at += counts[uint32_t(i)] + int32_t(room);
  }
  if (isPaged(layout)) {
    auto pagesOf = [&](int64_t n) {
      return uint32_t((n + pageRows - 1) / pageRows) + 1;
    };
    bool byHead = layout == Layout::PagesByHead, kv = layout == Layout::PagesKV;
    uint32_t entries =
        pagesOf(layout == Layout::PagesRagged ? ofSequence : largest + room);
    uint32_t lists = batch * (byHead ? heads : 1);
    // A pool with some pages that are nobody's, in no order.
    std::vector<int32_t> pool(lists * entries * (kv ? 2 : 1) + 3);
    std::iota(pool.begin(), pool.end(), 0);
    std::shuffle(pool.begin(), pool.end(), random);
    table.assign(pool.begin(), pool.begin() + lists * entries);
    if (kv)
      vTable.assign(pool.end() - lists * entries, pool.end());
    view.pages = uint32_t(pool.size());
    view.page_rows = pageRows;
    view.table_entries = entries;
    view.table = {table.data(), int64_t(entries) * (byHead ? heads : 1),
                  byHead ? entries : 0};
    if (kv)
      view.v_table = {vTable.data(), entries, 0};
    if (layout == Layout::PagesList) {
      view.table.batch_stride = 0;
      view.table_entries *= batch;
      for (uint32_t i = 0; i < batch * heads; ++i)
        offsets.push_back(int32_t(i / heads * entries * pageRows));
    }
    rows = int64_t(pool.size()) * view.k.page_stride / dim;
    if (kv)
      vAt = 0;
  }
  if (!offsets.empty())
    view.offsets = {offsets.data(), heads, 1};
  size_t bytes = dtypeBytes(cache.dtype);
  if (vAt < 0)
    vAt = rows * dim;
  memory.assign(size_t(rows * dim + (vAt ? rows * dim : 0)) * bytes,
                std::byte{0xff});
  view.v = view.k;
  view.k.data = memory.data();
  view.v.data = memory.data() + size_t(vAt) * bytes;
  // By slot in every second layout.
  view.positions_by_slot = uint32_t(layout) % 2;
  positions.assign(size_t(rows + int64_t(batch) * heads * (largest + room)),
                   -7);
  view.positions =
      view.positions_by_slot
          ? kvc_plane{nullptr, view.k.batch_stride / dim,
                      view.k.head_stride / dim, view.k.row_stride / dim,
                      view.k.page_stride / dim}
          : kvc_plane{nullptr, heads * int64_t(largest + room),
                      int64_t(largest + room), 1, 0};
  view.positions.data = positions.data();
  for (uint32_t s = 0; s < batch; ++s)
    for (uint32_t g = 0; g < heads; ++g)
      for (uint32_t r = 0; r < cache.head(s, g).k.size(); ++r) {
        const Head &head = cache.head(s, g);
        auto k = narrow(head.k[r].data(), d, cache.dtype);
        auto v = narrow(head.v[r].data(), d, cache.dtype);
        std::memcpy(place(view.k, view.table, bytes, s, g, r), k.data(),
                    k.size());
        std::memcpy(place(view.v, vTable.empty() ? view.table : view.v_table,
                          bytes, s, g, r),
                    v.data(), v.size());
        std::memcpy(place(view.positions, view.table, 4, s, g, r),
                    &head.positions[r], 4);
      }
}

std::byte *Laid::place(const kvc_plane &plane, const kvc_numbers &pages,
                       size_t bytes, uint32_t s, uint32_t g, uint32_t r) const {
  int64_t element = 0;
  bool byRow = plane.data == positions.data() && !view.positions_by_slot;
  int64_t slot = r;
  if (!byRow && view.offsets.data)
    slot +=
        view.offsets
            .data[s * view.offsets.batch_stride + g * view.offsets.head_stride];
  if (byRow || view.kind != KVC_PAGED)
    element = s * plane.batch_stride + g * plane.head_stride +
              slot * plane.row_stride;
  else
    element = pages.data[s * pages.batch_stride + g * pages.head_stride +
                         slot / view.page_rows] *
                  plane.page_stride +
              g * plane.head_stride + slot % view.page_rows * plane.row_stride;
  return static_cast<std::byte *>(plane.data) + element * int64_t(bytes);
}

std::vector<float> Laid::row(const kvc_plane &plane, const kvc_numbers &pages,
                             uint32_t s, uint32_t g, uint32_t r) const {
  return widened(place(plane, pages, dtypeBytes(view.dtype), s, g, r),
                 view.head_dim, view.dtype);
}

void Laid::take(std::vector<int32_t> newCounts,
                std::vector<int32_t> newOffsets) {
  counts = std::move(newCounts);
  offsets = std::move(newOffsets);
  view.counts = {counts.data(), view.kv_heads, 1};
  view.offsets = {offsets.data(), view.kv_heads, 1};
}

std::pair<size_t, size_t> Laid::placesOf(uint32_t s, uint32_t g,
                                         uint32_t r) const {
  size_t bytes = dtypeBytes(view.dtype);
  const kvc_numbers &pages = vTable.empty() ? view.table : view.v_table;
  return {size_t(place(view.k, view.table, bytes, s, g, r) - memory.data()),
          size_t(place(view.v, pages, bytes, s, g, r) - memory.data())};
}

Cache Laid::read() const {
  Cache cache = {view.batch, view.kv_heads, view.head_dim,
                 view.dtype, lengths,       {}};
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < view.kv_heads; ++g) {
      Head head;
      for (uint32_t r = 0; r < uint32_t(counts[s * view.kv_heads + g]); ++r) {
        int32_t position = int32_t(r);
        if (view.positions.data)
          std::memcpy(&position, place(view.positions, view.table, 4, s, g, r),
                      4);
        head.positions.push_back(position);
        head.k.push_back(row(view.k, view.table, s, g, r));
        head.v.push_back(
            row(view.v, vTable.empty() ? view.table : view.v_table, s, g, r));
      }
      cache.all.push_back(head);
    }
  return cache;
}
