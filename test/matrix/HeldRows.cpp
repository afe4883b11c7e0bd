//===- HeldRows.cpp - a problem on a cache of rows ------------------------===//

#include "test/matrix/HeldRows.h"

#include "runtime/base/Format.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace kvc;
using namespace kvc::test;

std::vector<std::vector<bool>>
kvc::test::drawRows(const reference::Layer &layer, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<bool>> rows;
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    // Of 16: all, hardly any, none, or about a half and more.
    uint64_t kind = random() % 16;
    uint64_t share = kind < 2    ? 16
                     : kind == 2 ? 1
                     : kind == 3 ? 0
                                 : 6 + random() % 10;
    int64_t recent = random() % 2 ? int64_t(random() % 16) : 0;
    std::vector<bool> &head = rows.emplace_back();
    for (int64_t t = 0; t < layer.tokens; ++t)
      head.push_back(random() % 16 < share ||
                     (share && t >= layer.tokens - recent));
  }
  return rows;
}

rt::KeptSequence kvc::test::tokensOf(const Problem &problem,
                                     const rt::KeptSequence &got,
                                     const reference::Kept &want,
                                     Faults &faults) {
  rt::KeptSequence shown = got;
  const reference::Layer &layer = problem.layer;
  size_t at = 0, first = 0; // of what is kept, and of the cache's rows
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    for (int32_t i = 0; i < got.counts[g]; ++i, ++at) {
      int32_t row = got.indices[at];
      if (row < 0 || row >= problem.lengths[g]) {
        faults.add(
            rt::formatted("head {}: row {} of {}", g, row, problem.lengths[g]));
        return shown;
      }
      shown.indices[at] = problem.positions[first + size_t(row)];
      if (got.positions[at] != shown.indices[at])
        faults.add(rt::formatted("head {}: row {} has position {}, not {}", g,
                                 row, got.positions[at], shown.indices[at]));
    }
    first += size_t(problem.lengths[g]);
  }
  // Each head's first rows are ranked.
  int64_t most = 0, all = 0;
  for (const std::vector<bool> &head : want.ranked) {
    int64_t rows = std::count(head.begin(), head.end(), true);
    most = std::max(most, rows);
    all += rows;
  }
  if (got.past != most || int64_t(got.scores.size()) != all) {
    faults.add(rt::formatted("{} rows of a head are ranked at most, not {}, {} "
                             "of all heads, not {}",
                             got.past, most, got.scores.size(), all));
    return shown;
  }
  shown.past = uint32_t(want.past);
  shown.scores.clear();
  auto next = got.scores.begin();
  for (const std::vector<bool> &head : want.ranked)
    for (bool ranked : head)
      shown.scores.push_back(ranked ? *next++ : NAN);
  return shown;
}
