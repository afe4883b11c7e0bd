//===- Judge.cpp - what kernels kept against what the reference keeps -----===//

#include "test/matrix/Judge.h"

#include "runtime/base/DType.h"

#include "runtime/base/Format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace kvc;
using namespace kvc::test;

void Faults::add(std::string line) {
  constexpr size_t most = 20;
  if (++number <= most)
    lines.push_back(std::move(line));
}

void Faults::append(const Faults &others, const std::string &where) {
  for (const std::string &line : others.lines)
    add(where + line);
  number += others.number - others.lines.size();
}

static void judgeScores(const rt::KeptSequence &got,
                        const reference::Kept &want, int64_t heads,
                        Margin &margin, Faults &faults) {
  if (int64_t(got.scores.size()) != want.past * heads)
    return faults.add(rt::formatted("{} scores, not {}", got.scores.size(),
                                    want.past * heads));
  for (int64_t g = 0; g < heads; ++g)
    for (int64_t t = 0; t < want.past; ++t)
      if (float score = got.scores[g * want.past + t];
          !margin.scoreMayBe(g, t, score))
        faults.add(
            rt::formatted("head {}: the score of token {} is {:.9g}, not "
                          "{:.9g}",
                          g, t, score, want.scores[g][t]));
}

/// One head: its tokens, in ascending order.
static void judgeTokens(const std::vector<int64_t> &kept,
                        const std::vector<int64_t> &want, int64_t head,
                        Margin &margin, Faults &faults) {
  if (!std::is_sorted(kept.begin(), kept.end()) ||
      std::adjacent_find(kept.begin(), kept.end()) != kept.end())
    faults.add(rt::formatted("head {}: the tokens do not ascend", head));
  if (kept.size() != want.size() && !margin.keepsSoMany(head, kept.size()))
    faults.add(rt::formatted("head {}: {} tokens, not {}", head, kept.size(),
                             want.size()));
  std::vector<int64_t> differ;
  std::set_symmetric_difference(kept.begin(), kept.end(), want.begin(),
                                want.end(), std::back_inserter(differ));
  for (int64_t t : differ)
    if (!margin.keepsEither(head, t))
      faults.add(rt::formatted("head {}: token {} is {}", head, t,
                               std::binary_search(want.begin(), want.end(), t)
                                   ? "dropped"
                                   : "kept"));
}

bool kvc::test::isNear(double got, double want, double most) {
  if (std::isnan(want) || std::isinf(want))
    return std::isnan(want) ? std::isnan(got) : got == want;
  return std::abs(got - want) <= most;
}

bool kvc::test::carriedMayBe(float got, double want) {
  return isNear(got, want, 5e-5 * (1 + std::abs(want)));
}

/// A row carries what its token has drawn, or all its members' tokens. Members with
/// the position of their row do not say which tokens they are.
static void judgeCarried(const reference::Layer &layer,
                         const rt::KeptSequence &got,
                         const reference::Kept &want, Faults &faults) {
  if (got.states.size() != want.carried.size())
    return faults.add(rt::formatted("rows carry {} numbers, not {}",
                                    got.states.size(), want.carried.size()));
  if (want.merge && want.merge->sharePositions)
    return;
  for (size_t j = 0; j < want.carried.size(); ++j) {
    size_t row = 0, member = 0;
    for (int64_t g = 0; g < layer.kvHeads; ++g) {
      auto own = want.carried[j].ofTokens.data.begin() + g * layer.tokens;
      std::vector<double> sums(size_t(got.counts[g]));
      if (!want.merge)
        for (size_t r = 0; r < sums.size(); ++r)
          sums[r] = own[got.indices[row + r]];
      for (int32_t m = 0; want.merge && m < got.members.counts[g];
           ++m, ++member)
        sums[size_t(got.members.rows[member])] +=
            own[got.members.positions[member]];
      for (size_t r = 0; r < sums.size(); ++r, ++row)
        if (!carriedMayBe(got.states[j][row], sums[r]))
          faults.add(rt::formatted("head {}: row {} carries {} = {:.9g}, not "
                                   "{:.9g}",
                                   g, r, want.carried[j].name,
                                   got.states[j][row], sums[r]));
    }
  }
}

Faults kvc::test::judge(const Problem &problem, const rt::KeptSequence &got,
                        const reference::Kept &want, Margin &margin) {
  Faults faults;
  const reference::Layer &layer = problem.layer;
  size_t row = size_t(layer.headDim) * rt::dtypeBytes(problem.shape.dtype);
  size_t at = 0, sum = 0;
  for (int32_t count : got.counts)
    sum += size_t(count);
  if (got.counts.size() != size_t(layer.kvHeads) || sum != got.indices.size() ||
      got.k.size() != sum * row || got.v.size() != sum * row) {
    faults.add("the counts do not add up to the rows");
    return faults;
  }
  if (int64_t(got.past) != want.past)
    faults.add(
        rt::formatted("{} tokens are ranked, not {}", got.past, want.past));
  else
    judgeScores(got, want, layer.kvHeads, margin, faults);
  bool ofMerged = layer.members.has_value();
  bool merges = ofMerged || want.merge || !got.members.counts.empty();
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    std::vector<int64_t> kept(got.indices.begin() + at,
                              got.indices.begin() + at + got.counts[g]);
    judgeTokens(kept, want.tokens[g], g, margin, faults);
    for (size_t i = 0; i < kept.size() && !merges; ++i) {
      size_t from = (g * layer.tokens + kept[i]) * row;
      for (auto [name, out, in] : {std::tuple("key", &got.k, &problem.k),
                                   std::tuple("value", &got.v, &problem.v)})
        if (std::memcmp(&(*out)[(at + i) * row], &(*in)[from], row) != 0)
          faults.add(rt::formatted("head {}: row {} is not the {} of token {}",
                                   g, i, name, kept[i]));
    }
    at += kept.size();
  }
  if (merges)
    faults.append(ofMerged ? judgeMergedCache(problem, got, want, margin)
                           : judgeMerge(problem, got, want, margin),
                  "");
  if (faults.empty() && !ofMerged)
    judgeCarried(layer, got, want, faults);
  return faults;
}

Faults kvc::test::judgeRanking(const std::vector<float> &scores,
                               const std::vector<int64_t> &marked) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b]))
      return !std::isnan(scores[a]) && std::isnan(scores[b]);
    return scores[a] > scores[b];
  });
  order.resize(std::min(order.size(), marked.size()));
  std::sort(order.begin(), order.end());
  Faults faults;
  std::vector<int64_t> differ;
  std::set_difference(order.begin(), order.end(), marked.begin(), marked.end(),
                      std::back_inserter(differ));
  for (int64_t t : differ)
    faults.add(rt::formatted("token {} is among the {} best but is dropped", t,
                             marked.size()));
  return faults;
}

Faults kvc::test::compareRows(const rt::KeptLayer &a, const rt::KeptLayer &b) {
  Faults faults;
  for (size_t s = 0; s < a.sequences.size(); ++s)
    if (a.sequences[s].indices != b.sequences[s].indices ||
        a.sequences[s].counts != b.sequences[s].counts)
      faults.add(rt::formatted("other tokens in sequence {}", s));
  return faults;
}

/// NaN is the same as itself.
static bool sameBytes(const std::vector<float> &a,
                      const std::vector<float> &b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

Faults kvc::test::compareBytes(const rt::KeptLayer &a, const rt::KeptLayer &b) {
  Faults faults = compareRows(a, b);
  for (size_t i = 0; i < a.sequences.size(); ++i) {
    const rt::KeptSequence &s = a.sequences[i], &t = b.sequences[i];
    if (s.k != t.k || s.v != t.v)
      faults.add(rt::formatted("other K or V in sequence {}", i));
    if (s.members.rows != t.members.rows ||
        s.members.positions != t.members.positions ||
        !sameBytes(s.members.norms, t.members.norms))
      faults.add(rt::formatted("another table of members in sequence {}", i));
    if (!sameBytes(s.scores, t.scores))
      faults.add(rt::formatted("other scores in sequence {}", i));
    if (!std::equal(s.states.begin(), s.states.end(), t.states.begin(),
                    t.states.end(), sameBytes))
      faults.add(rt::formatted("rows carry other numbers in sequence {}", i));
  }
  return faults;
}
