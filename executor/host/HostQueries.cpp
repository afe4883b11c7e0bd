//===- HostQueries.cpp - the last queries of a sequence, on the host ------===//

#include "executor/host/HostQueries.h"

#include <algorithm>

using namespace kvc::rt;

void Tail::append(const std::vector<float> &values, uint32_t tokens,
                  size_t width, size_t most) {
  most = std::min(most, SIZE_MAX / width);
  heads.resize(values.size() / (tokens * width));
  for (size_t h = 0; h < heads.size(); ++h) {
    auto first = values.begin() + ptrdiff_t(h * tokens * width);
    heads[h].insert(heads[h].end(), first, first + ptrdiff_t(tokens * width));
    if (heads[h].size() > most * width)
      heads[h].erase(heads[h].begin(),
                     heads[h].end() - ptrdiff_t(most * width));
  }
}

std::vector<float> Tail::joined() const {
  std::vector<float> all;
  for (const std::vector<float> &head : heads)
    all.insert(all.end(), head.begin(), head.end());
  return all;
}

std::vector<float> Tail::joined(size_t rows, size_t width) const {
  std::vector<float> all;
  for (const std::vector<float> &head : heads)
    all.insert(all.end(), head.end() - ptrdiff_t(rows * width), head.end());
  return all;
}

void HostQueries::add(Layer &layer, const std::vector<float> &q,
                      uint32_t tokens) {
  layer.q.append(q, tokens, config.headDim, most);
  layer.count =
      uint32_t(std::min<uint64_t>(most, layer.count + uint64_t(tokens)));
}

void HostQueries::add(uint32_t layer, const Activations &activations) {
  const LayerActivations &from = layerOf(activations);
  add(layers[layer], from.q, from.tokens);
  layers[layer].lse.append(from.lse, from.tokens, 1, most);
  layers[layer].fresh += from.tokens;
}

void HostQueries::restore(uint32_t layer, const std::vector<float> &q) {
  size_t tokens = q.size() / (size_t(config.qHeads) * config.headDim);
  if (tokens)
    add(layers[layer], q, uint32_t(tokens));
}

std::vector<float> HostQueries::lse(uint32_t layer, uint32_t rows) const {
  const Layer &from = layers[layer];
  return from.fresh < rows ? std::vector<float>() : from.lse.joined(rows, 1);
}
