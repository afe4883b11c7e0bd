//===- MergedCacheJudge.cpp - what is kept of a merged cache --------------===//
//
// Rows join rows, with their members: the table has the members of each row that is
// kept or has joined one, under their old positions and norms, but for those that
// at_most has sent away. A row that others have joined is the mean of them all, any
// other one the bytes that it was.
//
//===----------------------------------------------------------------------===//

#include "test/matrix/HeadJudge.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

using namespace kvc;
using namespace kvc::test;

namespace {

class MergedCacheJudge : public HeadJudge {
public:
  using HeadJudge::HeadJudge;

private:
  /// By token that had a row: the kept token whose row has it now, or -1.
  std::vector<int64_t> joined;
  std::set<int64_t> doubtful; // kept tokens whose rows nobody knows

  /// Where the reference has a token's row, of the tokens that are kept here.
  int64_t wanted(int64_t token) const {
    if (isKept(token))
      return token;
    int64_t to = destinationOf(token);
    return isKept(to) ? to : -1;
  }

  void judgeHead() override {
    joined.clear();
    for (int64_t t = 0; t < layer.tokens; ++t)
      joined.push_back(layer.hasRow(g, t) ? wanted(t) : -1);
    readTable();
    if (!faults.empty())
      return;
    // Without a near tie all of the table is known.
    for (int64_t t = 0; t < layer.tokens; ++t)
      same &= !layer.hasRow(g, t) || joined[t] == wanted(t);
    if (same)
      judgeTable();
    // Where rows whose members are all gone have joined others, the reference knows,
    // but for near ties.
    for (size_t row = 0; row < kept.size() && (same || !want.atMost); ++row)
      if (!doubtful.count(kept[row]))
        judgeRow(row);
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
      if (!seen[old] && joined[old] != kept[row] && isKept(old))
        add("the row of token {}, which is kept, is with {}", old, kept[row]);
      else if (!seen[old] && joined[old] != kept[row] && same)
        judgeDestination(old, kept[row]);
      seen[old] = true;
      joined[old] = kept[row];
    }
    doubtful.clear();
    for (int64_t t = 0; t < layer.tokens; ++t)
      if (layer.hasRow(g, t) && !seen[t])
        want.atMost ? findDoubts(t) : judgeGone(t);
  }

  /// A row whose members are all gone, which at_most has not sent away.
  void judgeGone(int64_t token) {
    int64_t to = std::exchange(joined[token], -1);
    if (isKept(token))
      return add("row {} is kept without a member", token);
    if (to >= 0 && same)
      judgeLeftOut(token, to);
  }

  /// Of a row whose members at_most has sent away nobody tells which it has joined: it
  /// may be any that is as like it.
  void findDoubts(int64_t token) {
    int64_t to = joined[token];
    if (isKept(token) || to < 0)
      return;
    double most = similarity(token, to);
    if (!(most > want.merge->least + slack))
      doubtful.insert(to);
    for (int64_t other : kept)
      if (other != to && other < past &&
          !(similarity(token, other) < most - slack))
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
    double sum = 0;
    auto weight = [&](int64_t t) {
      return from.size() == 1 ? 1 : want.merge->weight.data[g * past + t];
    };
    for (int64_t t : from)
      sum += weight(t);
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
        if (!isNear(x, mean, from.size() == 1 ? 0 : unit * (1 + size)))
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
