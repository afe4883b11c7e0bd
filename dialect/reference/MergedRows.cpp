//===- MergedRows.cpp - rows that represent members ------------------------===//

#include "dialect/reference/MergedRows.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace kvc;
using namespace kvc::reference;

Layer reference::cacheOfMembers(const Layer &layer) {
  Layer result = layer;
  if (!layer.members)
    return result;
  int64_t d = layer.headDim, half = d / 2;
  result.k.assign(size_t(layer.kvHeads * layer.tokens * d), 0);
  result.rows.assign(size_t(layer.kvHeads),
                     std::vector<bool>(size_t(layer.tokens)));
  for (int64_t g = 0; g < layer.kvHeads; ++g)
    for (int64_t p = 0; p < layer.tokens; ++p) {
      int64_t row = layer.members->rows[g][p];
      if (row < 0)
        continue;
      result.rows[g][p] = true;
      double norm = layer.members->norms[g][p];
      const double *from = &layer.kRaw[(g * layer.tokens + row) * d];
      double *to = &result.k[(g * layer.tokens + p) * d];
      for (int64_t i = 0; i < half; ++i) {
        double c = layer.angles[(p * half + i) * 2];
        double s = layer.angles[(p * half + i) * 2 + 1];
        to[i] = (from[i] * c - from[i + half] * s) * norm;
        to[i + half] = (from[i + half] * c + from[i] * s) * norm;
      }
      for (int64_t i = 0; i < d && layer.narrow; ++i)
        to[i] = layer.narrow(to[i]);
    }
  return result;
}

std::vector<std::vector<Kept::Member>>
reference::leftMembers(const Layer &layer, const Kept &kept, int64_t past,
                       int64_t most) {
  std::vector<std::vector<Kept::Member>> result;
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    std::vector<Kept::Member> &left = result.emplace_back();
    std::map<int64_t, int64_t> sizes; // of rows
    for (int64_t p = 0; p < layer.tokens; ++p) {
      int64_t row = layer.members->rows[g][p];
      if (row < 0)
        continue;
      const std::vector<int64_t> &tokens = kept.tokens[g];
      if (!llvm::is_contained(tokens, row)) {
        row = kept.merge && row < past
                  ? int64_t(kept.merge->destination.data[g * past + row])
                  : -1;
        if (!llvm::is_contained(tokens, row))
          continue;
      }
      left.push_back({row, p, layer.members->norms[g][p]});
      ++sizes[row];
    }
    while (int64_t(left.size()) > most) {
      auto goes = llvm::find_if(left, [&](const Kept::Member &member) {
        return sizes[member.row] > 1;
      });
      if (goes == left.end())
        break;
      --sizes[goes->row];
      left.erase(goes);
    }
  }
  return result;
}

std::vector<std::vector<double>> reference::ofKept(const Layer &layer,
                                                   const Tensor &numbers,
                                                   const Kept &kept,
                                                   int64_t past) {
  std::vector<std::vector<double>> result;
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    std::vector<double> &row = result.emplace_back();
    const double *own = &numbers.data[g * layer.tokens];
    for (int64_t t : kept.tokens[g]) {
      double sum = 0;
      for (int64_t i = 0; i < layer.tokens; ++i) {
        bool joins = kept.merge && i < past &&
                     kept.merge->destination.data[g * past + i] == t;
        if (i == t || joins)
          sum += own[i];
      }
      row.push_back(sum);
    }
  }
  return result;
}
