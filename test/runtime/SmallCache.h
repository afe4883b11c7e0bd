//===- SmallCache.h - one cache, laid out in every way an engine has ------===//
//
// A cache by what it means (rows of each head, with positions), and memory that holds it
// behind a kvc_cache_view of any kind. Rows are placed by the formulas of kvc/cache.h,
// written once more. Where no row lies there is NaN.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_RUNTIME_SMALLCACHE_H
#define KVC_TEST_RUNTIME_SMALLCACHE_H

#include "kvc/cache.h"

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kvc::test {

constexpr kvc_dtype dtypes[] = {KVC_F32, KVC_F16, KVC_BF16};

inline std::string lastError() {
  char text[512];
  kvc_last_error(text, sizeof text);
  return text;
}

/// Rows of one head: [rows][d], exact in the cache's type.
struct Head {
  std::vector<int32_t> positions;
  std::vector<std::vector<float>> k, v;
};

struct Cache {
  uint32_t batch, heads, dim;
  kvc_dtype dtype;
  std::vector<int32_t> lengths;
  std::vector<Head> all; // [batch * heads]

  const Head &head(uint32_t s, uint32_t g) const { return all[s * heads + g]; }
  Head &head(uint32_t s, uint32_t g) { return all[s * heads + g]; }
  /// Whether all heads of each sequence have the same number of rows.
  bool even() const;
};

using Random = std::mt19937;
/// Cosine and sine of the first positions, [positions][dim / 2][2].
std::vector<float> ropeOf(uint32_t positions, uint32_t dim);
std::vector<float> randomRow(Random &random, uint32_t dim, kvc_dtype dtype);
/// Heads of their own numbers of rows, up to `most`, some of them none; tokens may have
/// no row in any head.
Cache randomCache(Random &random, uint32_t batch, uint32_t heads, uint32_t dim,
                  kvc_dtype dtype, int32_t most);
/// All tokens have a row in every head.
Cache wholeCache(Random &random, uint32_t batch, uint32_t heads, uint32_t dim,
                 kvc_dtype dtype, int32_t most);

enum class Layout {
  HeadsFirst,  // [batch, heads, T, d]
  TokensFirst, // [batch, T, heads, d]
  LeftPadded,  // [batch, heads, T, d], rows at the end
  Compacted,   // heads of a sequence behind each other, free slots between them
  Flat,        // heads of all sequences behind each other
  PagesNHD,    // one table for all heads
  PagesHND,    // K and V packed in one row
  PagesByHead, // a table for every head
  PagesKV,     // K and V with page numbers of their own, in one pool
  PagesList,   // one list of pages for all sequences
  PagesRagged, // heads behind each other in a sequence's pages
};
constexpr Layout layouts[] = {
    Layout::HeadsFirst, Layout::TokensFirst, Layout::LeftPadded,
    Layout::Compacted,  Layout::Flat,        Layout::PagesNHD,
    Layout::PagesHND,   Layout::PagesByHead, Layout::PagesKV,
    Layout::PagesList,  Layout::PagesRagged};
inline bool isPaged(Layout layout) { return layout >= Layout::PagesNHD; }

/// Memory and the view of it.
class Laid {
public:
  /// With `room` free slots behind each head's rows, at least.
  Laid(const Cache &cache, Layout layout, uint32_t pageRows = 1,
       uint32_t room = 0, uint32_t seed = 1);
  Laid(const Laid &) = delete;

  kvc_cache_view view = {};
  /// What the memory holds.
  Cache read() const;
  /// From now on heads have `counts` rows, from the slots `offsets` on, both
  /// [batch * heads].
  void take(std::vector<int32_t> counts, std::vector<int32_t> offsets);
  /// The bytes of a head's row of K and V, as places in `memory`.
  std::pair<size_t, size_t> placesOf(uint32_t s, uint32_t g, uint32_t r) const;
  std::vector<std::byte> memory;
  std::vector<int32_t> counts, lengths, offsets, table, vTable, positions;

private:
  std::vector<float> row(const kvc_plane &plane, const kvc_numbers &pages,
                         uint32_t s, uint32_t g, uint32_t r) const;
  std::byte *place(const kvc_plane &plane, const kvc_numbers &pages,
                   size_t bytes, uint32_t s, uint32_t g, uint32_t r) const;
};

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_SMALLCACHE_H
