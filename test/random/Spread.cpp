//===- Spread.cpp - a margin by Monte Carlo arithmetic --------------------===//

#include "test/random/Spread.h"

#include "test/random/Noise.h"

#include <algorithm>
#include <cmath>

using namespace kvc;
using namespace kvc::random;

namespace {
struct Round {
  size_t runs; // so many in all
  double amplitude;
  /// Only runs that move each number for itself (Noise::draw, Noise::fine): of
  /// many tokens that are alike but for rounding, any one may be the best.
  bool apart;
};
constexpr Round rounds[] = {{8, fewUnits, false},
                            {80, 4 * fewUnits, false},
                            {1200, 4 * fewUnits, true}};
} // namespace

void Spread::makeRuns(size_t round) {
  while (runs.size() < rounds[round].runs) {
    uint64_t seed = rounds[round].apart ? 4 * runs.size() + 2 : runs.size() + 1;
    auto kept = run(seed, rounds[round].amplitude);
    if (failed(kept))
      return;
    runs.push_back(std::move(*kept));
  }
}

bool Spread::any(llvm::function_ref<bool(const reference::Kept &)> holds) {
  size_t seen = 0;
  for (size_t round = 0; round < std::size(rounds); ++round) {
    makeRuns(round);
    for (; seen < std::min(runs.size(), rounds[round].runs); ++seen)
      if (holds(runs[seen]))
        return true;
  }
  return false;
}

static bool has(const std::vector<int64_t> &tokens, int64_t token) {
  return std::binary_search(tokens.begin(), tokens.end(), token);
}

bool Spread::keepsEither(int64_t head, int64_t token) {
  bool kept = has(want.tokens[head], token);
  return any([&](const reference::Kept &other) {
    return has(other.tokens[head], token) != kept;
  });
}

bool Spread::keepsSoMany(int64_t head, size_t count) {
  bool fewer = count < want.tokens[head].size();
  return any([&](const reference::Kept &other) {
    size_t size = other.tokens[head].size();
    return fewer ? size <= count : size >= count;
  });
}

bool Spread::scoreMayBe(int64_t head, int64_t token, float got) {
  double right = want.scores[head][token];
  if (std::isnan(right) ? std::isnan(got) : right == double(got))
    return true;
  double away = std::abs(got - right);
  if (away <= 0x1p-21 * std::abs(right))
    return true;
  return any([&](const reference::Kept &other) {
    if (other.past != want.past)
      return true;
    double moved = other.scores[head][token];
    if (std::isnan(moved) || std::isinf(moved) || std::isnan(got) ||
        std::isinf(got))
      return std::isnan(moved) ? std::isnan(got) : moved == double(got);
    // Where rounding alone decides that there is a number at all, which one it is
    // can be any: a sum's rest, say.
    if (!std::isfinite(right))
      return std::signbit(got) == std::signbit(moved) || got == 0 || moved == 0;
    // Eight draws seldom hit the end of the range.
    return away <= 4 * std::abs(moved - right) + 0x1p-21 * std::abs(right);
  });
}

/// True where a mask has a token in one run and not in another.
bool Spread::marksEither(int64_t head, int64_t token,
                         reference::Tensor reference::Kept::Merge::*mask) {
  auto marks = [&](const reference::Kept &kept) {
    const reference::Tensor &all = (*kept.merge).*mask;
    return all.data[head * all.shape[1] + token] != 0;
  };
  return want.merge && any([&](const reference::Kept &other) {
           return other.merge && marks(other) != marks(want);
         });
}

bool Spread::searchesEither(int64_t head, int64_t token) {
  return marksEither(head, token, &reference::Kept::Merge::sources);
}

bool Spread::takesEither(int64_t head, int64_t token) {
  return marksEither(head, token, &reference::Kept::Merge::centres);
}
