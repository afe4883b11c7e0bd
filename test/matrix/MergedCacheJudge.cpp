//===- MergedCacheJudge.cpp - what is kept of a merged cache --------------===//
//
// Rows join rows, with their members: the table has the members of each row that is
// kept or has joined one, under their old positions and norms, but for those that
// at_most has sent away. A row that others have joined is the mean of them all, any
// other one the bytes that it was.
//
//===----------------------------------------------------------------------===//

#include "test/matrix/Judge.h"

#include "runtime/base/Format.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

using namespace kvc;
using namespace kvc::test;

namespace {

class MergedCacheJudge {
public:
  MergedCacheJudge(const Problem &problem, const rt::KeptSequence &got,
                   const reference::Kept &want, Margin &margin)
      : problem(problem), layer(problem.layer), got(got), want(want),
        margin(margin), past(want.merge ? want.merge->weight.shape[1] : 0),
        k(widen(got.k, problem.shape.dtype)),
        v(widen(got.v, problem.shape.dtype)) {}

  Faults run() {
    for (g = 0; g < layer.kvHeads && faults.empty(); ++g)
      judgeHead();
    if (faults.empty() && entry != got.members.rows.size())
      faults.add("the table's counts do not add up to its rows");
    return faults;
  }

private:
  const Problem &problem;
  const reference::Layer &layer;
  const rt::KeptSequence &got;
  const reference::Kept &want;
  Margin &margin;
  const int64_t past;
  std::vector<double> k, v;
  Faults faults;
  int64_t g = 0;
  size_t entry = 0, row0 = 0; // the head's first entry, and row
  std::vector<int64_t> kept;  // its tokens
  std::set<int64_t> doubtful; // kept tokens whose rows nobody knows
  bool same = true;           // without a near tie all of the table is known
  /// By token that had a row: the kept token whose row has it now, or -1.
  std::vector<int64_t> joined;

  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args &&...args) {
    faults.add(rt::formatted("head {}: ", g) +
               rt::formatted(text, std::forward<Args>(args)...));
  }

  bool isKept(int64_t token) const {
    return std::binary_search(kept.begin(), kept.end(), token);
  }
  /// Where the reference has a token's row, of the tokens that are kept here.
  int64_t wanted(int64_t token) const {
    if (isKept(token))
      return token;
    int64_t to = want.merge && token < past
                     ? int64_t(want.merge->destination.data[g * past + token])
                     : -1;
    return isKept(to) ? to : -1;
  }

  void judgeHead() {
    kept.assign(got.indices.begin() + long(row0),
                got.indices.begin() + long(row0) + got.counts[g]);
    same = kept == want.tokens[g];
    joined.clear();
    for (int64_t t = 0; t < layer.tokens; ++t)
      joined.push_back(layer.hasRow(g, t) ? wanted(t) : -1);
    readTable();
    if (!faults.empty())
      return;
    for (int64_t t = 0; t < layer.tokens; ++t)
      same &= !layer.hasRow(g, t) || joined[t] == wanted(t);
    if (same)
      judgeTable();
    // Where rows whose members are all gone have joined others, the reference knows,
    // but for near ties.
    for (size_t row = 0; row < kept.size() && (same || !want.atMost); ++row)
      if (!doubtful.count(kept[row]))
        judgeRow(row);
    entry += size_t(got.members.counts[g]);
    row0 += kept.size();
  }

  /// What the table says of rows that have joined others.
  void readTable() {
    const reference::Layer::Members &before = *layer.members;
    int64_t last = -1;
    std::vector<bool> seen(size_t(layer.tokens));
    for (size_t i = entry; i < entry + size_t(got.members.counts[g]); ++i) {
      int64_t position = got.members.positions[i], row = got.members.rows[i];
      if (row < 0 || row >= int64_t(kept.size()))
        return add("a member of row {} of {}", row, kept.size());
      if (position <= last || position >= layer.tokens)
        return add("a member at {} behind one at {}", position, last);
      last = position;
      int64_t old = before.rows[g][position];
      if (old < 0)
        return add("position {} is no member's", position);
      if (double(got.members.norms[i]) != before.norms[g][position])
        add("the member at {} has norm {}, not {}", position,
            got.members.norms[i], before.norms[g][position]);
      if (seen[old] && joined[old] != kept[row])
        add("row {} has members in two rows", old);
      if (!seen[old] && joined[old] != kept[row] && same)
        faults.append(isKept(old) ? aloneIn(old, kept[row])
                                  : judgeDestination(layer, want, margin, g,
                                                     old, kept[row]),
                      rt::formatted("head {}: ", g));
      seen[old] = true;
      joined[old] = kept[row];
    }
    doubtful.clear();
    for (int64_t t = 0; t < layer.tokens; ++t)
      if (layer.hasRow(g, t) && !seen[t])
        want.atMost ? findDoubts(t) : judgeGone(t);
  }

  static Faults aloneIn(int64_t token, int64_t to) {
    Faults faults;
    faults.add(rt::formatted("the row of token {}, which is kept, is with {}",
                             token, to));
    return faults;
  }

  /// A row whose members are all gone, which at_most has not sent away.
  void judgeGone(int64_t token) {
    int64_t to = std::exchange(joined[token], -1);
    if (isKept(token))
      return add("row {} is kept without a member", token);
    if (to < 0 || !same)
      return;
    double r = reference::similarity(layer, want.merge->sides, g, token, to);
    if (!(r < want.merge->least + similaritySlack) &&
        !margin.searchesEither(g, token) && !margin.takesEither(g, to))
      add("token {} should be merged into {}", token, to);
  }

  /// Of a row whose members at_most has sent away nobody tells which it has joined: it
  /// may be any that is as like it.
  void findDoubts(int64_t token) {
    int64_t to = joined[token];
    if (isKept(token) || to < 0)
      return;
    auto similarity = [&](int64_t other) {
      return reference::similarity(layer, want.merge->sides, g, token, other);
    };
    double most = similarity(to);
    if (!(most > want.merge->least + similaritySlack))
      doubtful.insert(to);
    for (int64_t other : kept)
      if (other != to && other < past &&
          !(similarity(other) < most - similaritySlack))
        doubtful.insert({other, to});
  }

  void judgeTable() {
    const std::vector<reference::Kept::Member> &members = want.members[g];
    if (size_t(got.members.counts[g]) != members.size())
      return add("{} members, not {}", got.members.counts[g], members.size());
    for (size_t i = 0; i < members.size(); ++i)
      if (got.members.positions[entry + i] != members[i].position)
        return add("member {} is at {}, not {}", i,
                   got.members.positions[entry + i], members[i].position);
  }

  void judgeRow(size_t row) {
    int64_t own = kept[row], d = layer.headDim;
    std::vector<int64_t> from;
    for (int64_t t = 0; t < layer.tokens; ++t)
      if (joined[t] == own)
        from.push_back(t);
    if (from.size() == 1) {
      // A NaN is one, whatever its bits.
      for (int64_t e = 0; e < d; ++e)
        for (auto [name, rows, side] :
             {std::tuple("key", &k, &layer.kRaw), {"value", &v, &layer.v}})
          if (!isNear((*rows)[(row0 + row) * d + e],
                      (*side)[(g * layer.tokens + own) * d + e], 0))
            return add("row {} is not the {} of token {}", row, name, own);
      return judgeCarried(row, from);
    }
    double sum = 0;
    auto weight = [&](int64_t t) {
      return want.merge->weight.data[g * past + t];
    };
    for (int64_t t : from)
      sum += weight(t);
    double unit = meanSlack(problem.shape.dtype);
    for (int64_t e = 0; e < d; ++e)
      for (auto [name, rows, side] :
           {std::tuple("key", &k, &layer.kRaw), {"value", &v, &layer.v}}) {
        double mean = 0, size = 0;
        for (int64_t t : from) {
          double w = sum == 0 ? 1.0 / double(from.size()) : weight(t) / sum;
          double x = (*side)[(g * layer.tokens + t) * d + e];
          mean += w * x;
          size += std::abs(w * x);
        }
        double x = (*rows)[(row0 + row) * d + e];
        if (!isNear(x, mean, unit * (1 + size)))
          return add("the {} of token {}'s row is {} in channel {}, not {}",
                     name, own, x, e, mean);
      }
    judgeCarried(row, from);
  }

  /// Numbers of rows that join are added.
  void judgeCarried(size_t row, const std::vector<int64_t> &from) {
    if (got.states.size() != want.carried.size())
      return add("rows carry {} numbers, not {}", got.states.size(),
                 want.carried.size());
    for (size_t j = 0; j < want.carried.size(); ++j) {
      double sum = 0;
      for (int64_t t : from)
        sum += want.carried[j].ofTokens.data[size_t(g * layer.tokens + t)];
      if (!carriedMayBe(got.states[j][row0 + row], sum))
        add("row {} carries {} = {:.9g}, not {:.9g}", row, want.carried[j].name,
            got.states[j][row0 + row], sum);
    }
  }
};

} // namespace

Faults kvc::test::judgeMergedCache(const Problem &problem,
                                   const rt::KeptSequence &got,
                                   const reference::Kept &want,
                                   Margin &margin) {
  return MergedCacheJudge(problem, got, want, margin).run();
}
