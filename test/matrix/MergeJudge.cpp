//===- MergeJudge.cpp - merged rows against the reference -----------------===//
//
// The table names tokens that the reference would merge, into rows as similar
// as the best; rows are the means of the table's members.
//
//===----------------------------------------------------------------------===//

#include "test/matrix/HeadJudge.h"

#include <algorithm>
#include <cmath>

using namespace kvc;
using namespace kvc::test;

namespace {

class MergeJudge : public HeadJudge {
public:
  using HeadJudge::HeadJudge;

private:
  double length(int64_t token) const {
    double sum = 0;
    for (int64_t e = 0; e < layer.headDim; ++e) {
      double x = layer.kRaw[(g * layer.tokens + token) * layer.headDim + e];
      sum += x * x;
    }
    return std::sqrt(sum);
  }

  void judgeHead() override {
    std::vector<std::vector<int64_t>> members(kept.size());
    std::vector<int64_t> represented;
    bool shared = want.merge && want.merge->sharePositions;
    std::vector<int64_t> named =
        shared ? tokensByNorm() : std::vector<int64_t>();
    int64_t token = -1;
    for (size_t i = 0; i < size_t(got.members.counts[g]); ++i) {
      size_t at = entry + i;
      int64_t row = got.members.rows[at];
      if (row < 0 || row >= int64_t(kept.size()))
        return add("a member of row {} of {}", row, kept.size());
      // With shared positions the table does not name its tokens: where no tokens
      // have its norms, they are said to be those that come next.
      token = !shared         ? got.members.positions[at]
              : named.empty() ? nextMember(token)
                              : named[i];
      int64_t position = shared ? kept[row] : token;
      if (token < 0 || token >= layer.tokens ||
          got.members.positions[at] != position)
        return add("a member at position {}, not {}", got.members.positions[at],
                   position);
      members[row].push_back(token);
      represented.push_back(token);
      if (!hasNormOf(at, token))
        add("token {} has norm {}, not {}", token, got.members.norms[at],
            length(token));
      if (kept[row] != token && same)
        judgeDestination(token, kept[row]);
    }
    if (!std::is_sorted(represented.begin(), represented.end()))
      add("the members do not ascend");
    if (same)
      judgeDropped(represented);
    for (size_t row = 0; row < kept.size(); ++row)
      judgeMean(kept[row], members[row], &k[(row0 + row) * layer.headDim],
                &v[(row0 + row) * layer.headDim]);
  }

  bool hasNormOf(size_t entry, int64_t token) const {
    double norm = length(token);
    return isNear(got.members.norms[entry], norm, 1e-5 * (1 + norm));
  }

  /// The tokens of this head's table, found by their norms, in ascending order; kept
  /// tokens are members of their own rows. Of all choices one that is the least
  /// unlike the reference's, which is what the judge then judges. None fits: empty.
  std::vector<int64_t> tokensByNorm() const {
    constexpr size_t never = SIZE_MAX / 2;
    size_t T = size_t(layer.tokens), entries = size_t(got.members.counts[g]);
    auto rowOf = [&](size_t t) {
      auto row = std::lower_bound(kept.begin(), kept.end(), int64_t(t));
      return row != kept.end() && *row == int64_t(t) ? row - kept.begin() : -1;
    };
    auto represents = [&](size_t i, size_t t) -> size_t {
      int64_t row = got.members.rows[entry + i], own = rowOf(t);
      if (row < 0 || row >= int64_t(kept.size()) || (own >= 0 && own != row) ||
          !hasNormOf(entry + i, int64_t(t)))
        return never;
      return own < 0 && destinationOf(int64_t(t)) != kept[size_t(row)];
    };
    auto isLeftOut = [&](size_t t) -> size_t {
      return rowOf(t) >= 0 ? never : isKept(destinationOf(int64_t(t)));
    };
    // cost[i][t]: of the entries from i on, by the tokens from t on.
    std::vector<std::vector<size_t>> cost(entries + 1,
                                          std::vector<size_t>(T + 1, never));
    cost[entries][T] = 0;
    for (size_t i = entries + 1; i-- > 0;)
      for (size_t t = T; t-- > 0;) {
        size_t out = cost[i][t + 1] + isLeftOut(t);
        size_t in = i < entries ? cost[i + 1][t + 1] + represents(i, t) : never;
        cost[i][t] = std::min({in, out, never});
      }
    std::vector<int64_t> tokens;
    for (size_t t = 0; cost[0][0] < never && tokens.size() < entries; ++t)
      if (size_t i = tokens.size();
          cost[i][t] == cost[i + 1][t + 1] + represents(i, t))
        tokens.push_back(int64_t(t));
    return tokens;
  }

  int64_t nextMember(int64_t token) const {
    // A destination that is not kept represents nobody.
    for (++token; token < layer.tokens; ++token)
      if (isKept(token) || isKept(destinationOf(token)))
        return token;
    return -1;
  }

  /// Tokens without a row have nothing similar enough.
  void judgeDropped(const std::vector<int64_t> &represented) {
    for (int64_t t = 0; t < layer.tokens; ++t) {
      if (std::binary_search(represented.begin(), represented.end(), t))
        continue;
      if (!want.merge || t >= past)
        return add("token {} has no row", t);
      // A destination that is not kept represents nobody.
      if (int64_t to = destinationOf(t); isKept(to))
        judgeLeftOut(t, to);
    }
  }

  void judgeMean(int64_t own, const std::vector<int64_t> &members,
                 const double *rowK, const double *rowV) {
    int64_t d = layer.headDim, T = layer.tokens;
    if (members.empty())
      return add("the row of token {} has no member", own);
    if (members.size() > 1 && !want.merge)
      return add("the row of token {} has {} members, not 1", own,
                 members.size());
    double sum = 0;
    auto weight = [&](int64_t t) {
      return members.size() == 1 ? 1 : want.merge->weight.data[g * past + t];
    };
    for (int64_t t : members)
      sum += weight(t);
    for (int64_t e = 0; e < d; ++e) {
      double key = 0, value = 0;
      for (int64_t t : members) {
        double w = sum == 0 ? 1.0 / double(members.size()) : weight(t) / sum;
        double norm = length(t);
        key += w * (norm == 0 ? 0 : layer.kRaw[(g * T + t) * d + e] / norm);
        value += w * layer.v[(g * T + t) * d + e];
      }
      // Keys are means of unit vectors: small next to 1 in most channels.
      if (!isNear(rowK[e], key, unit * (std::abs(key) + 1.0 / 16)))
        return add("the key of token {}'s row is {} in channel {}, not {}", own,
                   rowK[e], e, key);
      if (!isNear(rowV[e], value, unit * (1 + std::abs(value))))
        return add("the value of token {}'s row is {} in channel {}, not {}",
                   own, rowV[e], e, value);
      if (members.size() == 1 &&
          !isNear(rowV[e], layer.v[(g * T + own) * d + e], 0))
        return add("the value of token {}'s row is not the token's", own);
    }
  }
};

} // namespace

Faults kvc::test::judgeMerge(const Problem &problem,
                             const rt::KeptSequence &got,
                             const reference::Kept &want, Margin &margin) {
  return MergeJudge(problem, got, want, margin).run();
}
