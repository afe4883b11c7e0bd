//===- HeadJudge.cpp - what judges of merged rows have in common ----------===//

#include "test/matrix/HeadJudge.h"

#include <algorithm>

using namespace kvc;
using namespace kvc::test;

HeadJudge::HeadJudge(const Problem &problem, const rt::KeptSequence &got,
                     const reference::Kept &want, Margin &margin)
    : layer(problem.layer), got(got), want(want), margin(margin),
      past(want.merge ? want.merge->weight.shape[1] : 0),
      k(widen(got.k, problem.shape.dtype)),
      v(widen(got.v, problem.shape.dtype)),
      unit(problem.shape.dtype == KVC_F32   ? 1e-4
           : problem.shape.dtype == KVC_F16 ? 1e-3
                                            : 8e-3) {}

Faults HeadJudge::run() {
  const std::vector<int32_t> &counts = got.members.counts;
  size_t entries = 0;
  for (int32_t count : counts)
    entries += size_t(count);
  if (counts.size() != size_t(layer.kvHeads) ||
      entries != got.members.rows.size()) {
    faults.add("the table's counts do not add up to its rows");
    return faults;
  }
  for (g = 0; g < layer.kvHeads && faults.empty(); ++g) {
    auto first = got.indices.begin() + long(row0);
    kept.assign(first, first + got.counts[g]);
    same = kept == want.tokens[g];
    judgeHead();
    entry += size_t(counts[g]);
    row0 += kept.size();
  }
  return faults;
}

bool HeadJudge::isKept(int64_t token) const {
  return std::binary_search(kept.begin(), kept.end(), token);
}

int64_t HeadJudge::destinationOf(int64_t token) const {
  return token < past ? int64_t(want.merge->destination.data[g * past + token])
                      : -1;
}

double HeadJudge::similarity(int64_t token, int64_t to) const {
  return reference::similarity(layer, want.merge->sides, g, token, to);
}

void HeadJudge::judgeDestination(int64_t token, int64_t to) {
  if (token >= past || to >= past)
    return add("token {} should not be merged", token);
  if (want.merge->sources.data[g * past + token] == 0 &&
      !margin.searchesEither(g, token))
    add("token {} is no source", token);
  if (want.merge->centres.data[g * past + to] == 0 &&
      !margin.takesEither(g, to))
    add("token {} is merged into {}, which takes none", token, to);
  double r = similarity(token, to);
  if (!(r > want.merge->least - slack))
    add("token {} is merged into {}, which is less like it than asked for",
        token, to);
  int64_t best = destinationOf(token);
  if (best >= 0 && !(r >= similarity(token, best) - slack) &&
      !margin.takesEither(g, best))
    add("token {} is merged into {}, not {}", token, to, best);
}

void HeadJudge::judgeLeftOut(int64_t token, int64_t to) {
  if (!(similarity(token, to) < want.merge->least + slack) &&
      !margin.searchesEither(g, token) && !margin.takesEither(g, to))
    add("token {} should be merged into {}", token, to);
}
