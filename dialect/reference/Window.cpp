//===- Window.cpp - which tokens of each head are ranked ------------------===//

#include "dialect/reference/Window.h"

#include <algorithm>

using namespace kvc::reference;

Window::Window(const Layer &layer, int64_t wanted) {
  wanted = std::clamp<int64_t>(wanted, 0, layer.tokens);
  whole = std::min(wanted, layer.budget);
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    int64_t end = layer.tokens, inside = 0;
    for (int64_t t = layer.tokens - 1;
         t >= layer.tokens - wanted && inside < layer.budget; --t)
      if (layer.hasRow(g, t))
        end = t, ++inside;
    // What has no row belongs to neither; a dense past ends where the window
    // begins.
    if (inside < layer.budget)
      end = layer.tokens - wanted;
    rows.push_back(inside);
    ends.push_back(end);
    past = std::max(past, end);
  }
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    isPast.emplace_back(past, false);
    for (int64_t t = 0; t < ends[g]; ++t)
      isPast[g][t] = layer.hasRow(g, t);
  }
}
