//===- RowsReference.cpp - a cache of rows as the reference sees it -------===//

#include "test/matrix/RowsReference.h"

#include "test/matrix/Problem.h"

#include <algorithm>
#include <cmath>

using namespace kvc;
using namespace kvc::test;

reference::Layer kvc::test::layerOf(PolicyOp policy, const Cache &cache,
                                    const Cache &raw, const RowsInput &input,
                                    uint32_t s) {
  reference::Layer layer = {};
  int64_t d = cache.dim, heads = cache.heads, tokens = cache.lengths[s];
  layer.qHeads = heads * input.group;
  layer.kvHeads = heads;
  layer.headDim = d;
  layer.tokens = tokens;
  layer.queries = std::min<int64_t>(input.queries, tokens);
  layer.budget = input.budgets[s];
  layer.layer = input.layer;
  layer.layers = input.layers;
  layer.scale = 1 / std::sqrt(double(d));
  for (int64_t h = 0; h < layer.qHeads; ++h)
    for (int64_t i = input.queries - layer.queries; i < input.queries; ++i) {
      const std::vector<float> &row =
          input.q[(s * layer.qHeads + h) * input.queries + i];
      layer.q.insert(layer.q.end(), row.begin(), row.end());
    }
  layer.k.assign(heads * tokens * d, NAN);
  layer.v = layer.kRaw = layer.k;
  layer.rows.assign(heads, std::vector<bool>(tokens));
  for (int64_t g = 0; g < heads; ++g) {
    const Head &head = cache.head(s, uint32_t(g));
    for (size_t r = 0; r < head.k.size(); ++r) {
      int64_t t = head.positions[r], at = (g * tokens + t) * d;
      layer.rows[g][t] = true;
      std::copy(head.k[r].begin(), head.k[r].end(), &layer.k[at]);
      std::copy(head.v[r].begin(), head.v[r].end(), &layer.v[at]);
      const std::vector<float> &before = raw.head(s, uint32_t(g)).k[r];
      std::copy(before.begin(), before.end(), &layer.kRaw[at]);
    }
  }
  layer.hidden = input.hidden;
  for (const std::vector<float> &row : input.wo)
    layer.wo.insert(layer.wo.end(), row.begin(), row.end());
  layer.table.assign(input.table.begin(),
                     input.table.begin() + input.layers * layer.qHeads);
  if (!input.keptLayers.empty()) {
    auto first = input.keptLayers.begin() +
                 s * (input.keptLayers.size() / cache.lengths.size());
    layer.keptLayers.assign(first, first + tokens);
  }
  layer.round = roundingTo(cache.dtype);
  if (!input.newQueries.empty())
    layer.newQueries = input.newQueries[s];
  auto names = carriedNames(
      mlir::cast<KeepOp>(policy.getBody().front().back()).getNamesAttr());
  for (size_t j = 0; j < input.states.size(); ++j) {
    std::vector<double> &numbers = layer.rowStates[names[j].str()];
    numbers.assign(size_t(heads * tokens), NAN);
    for (int64_t g = 0; g < heads; ++g) {
      const Head &head = cache.head(s, uint32_t(g));
      for (size_t r = 0; r < head.k.size(); ++r)
        numbers[size_t(g * tokens + head.positions[r])] =
            input.states[j][s * cache.heads + uint32_t(g)][r];
    }
  }
  return layer;
}
