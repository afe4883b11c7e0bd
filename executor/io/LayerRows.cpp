//===- LayerRows.cpp - the input of `apply`: caches of rows, merged or not -===//

#include "executor/io/LayerFile.h"

#include "executor/io/FindNaN.h"
#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::rt;

const TensorView &LayerFile::integers(size_t layer, const char *name) {
  std::string full = formatted("layers.{}.{}", layer, name);
  const TensorView &tensor = file.at(full);
  if (tensor.dtype != "I32" || tensor.shape.size() != 1)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor '{}' must be I32 with 1 dimension, got {}", path(),
               full, tensor.describe());
  return tensor;
}

template <typename T> const T *LayerFile::numbers(const TensorView &tensor) {
  const std::byte *data = tensor.data;
  if (reinterpret_cast<uintptr_t>(data) % alignof(T))
    data = copies.emplace_back(data, data + tensor.bytes).data();
  return reinterpret_cast<const T *>(data);
}

void LayerFile::readRows(size_t index, LayerTensors &layer,
                         std::optional<uint32_t> length) {
  const TensorView &lengths = integers(index, "lengths"),
                   &positions = integers(index, "positions");
  if (index == 0)
    kvHeads = uint32_t(lengths.shape[0]);
  if (lengths.shape[0] != kvHeads || kvHeads == 0)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor 'layers.{}.lengths' must have a number for each of "
               "{} KV heads, got {}",
               path(), index, std::max(kvHeads, 1u), lengths.describe());
  layer.lengths = numbers<int32_t>(lengths);
  layer.positions = numbers<int32_t>(positions);
  for (uint32_t g = 0; g < kvHeads; ++g) {
    if (layer.lengths[g] < 0)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: layers.{}.lengths must be 0 or more, got {}", path(),
                 index, layer.lengths[g]);
    layer.rows += uint64_t(layer.lengths[g]);
  }
  if (layer.rows != positions.shape[0])
    throw fail(KVC_BAD_ARGUMENT,
               "{}: layers.{}.positions must have as many rows as the lengths "
               "add up to ({}), got {}",
               path(), index, layer.rows, positions.shape[0]);
  const int32_t *next = layer.positions;
  for (uint32_t g = 0; g < kvHeads; ++g)
    for (int32_t r = 0, last = -1; r < layer.lengths[g]; ++r, ++next) {
      if (*next <= last || *next == INT32_MAX ||
          (length && uint32_t(*next) >= *length))
        throw fail(KVC_BAD_ARGUMENT,
                   "{}: layers.{}.positions must ascend from 0 to {} in each "
                   "head, got {} in head {}",
                   path(), index, length.value_or(INT32_MAX) - 1,
                   inOrder(*next, last), g);
      last = *next;
      tokens = std::max(tokens, uint32_t(last) + 1);
    }
  if (length)
    tokens = *length;
}

void LayerFile::readMembers(size_t index) {
  LayerTensors &layer = layers[index];
  const TensorView &counts = integers(index, "members.counts"),
                   &rows = integers(index, "members.row"),
                   &positions = integers(index, "members.position");
  std::string norm = formatted("layers.{}.members.norm", index);
  const TensorView &norms = file.at(norm);
  if (counts.shape[0] != kvHeads)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor 'layers.{}.members.counts' must have a number for "
               "each of {} KV heads, got {}",
               path(), index, kvHeads, counts.describe());
  layer.memberCounts = numbers<int32_t>(counts);
  for (uint32_t g = 0; g < kvHeads; ++g) {
    if (layer.memberCounts[g] < 0)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: layers.{}.members.counts must be 0 or more, got {}",
                 path(), index, layer.memberCounts[g]);
    layer.members += uint64_t(layer.memberCounts[g]);
  }
  std::vector<uint64_t> shape{layer.members};
  if (norms.dtype != "F32" || norms.shape != shape)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor '{}' must be F32 [{}], one for each member, got {}",
               path(), norm, layer.members, norms.describe());
  if (int64_t at = findNaN(norms, KVC_F32); at >= 0)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor '{}' must not hold NaN, got NaN at element {}",
               path(), norm, at);
  for (auto [name, tensor] :
       {std::pair{"row", &rows}, std::pair{"position", &positions}})
    if (tensor->shape != shape)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor 'layers.{}.members.{}' must be I32 [{}], one for "
                 "each member, got {}",
                 path(), index, name, layer.members, tensor->describe());
  layer.memberRows = numbers<int32_t>(rows);
  layer.memberPositions = numbers<int32_t>(positions);
  layer.memberNorms = numbers<float>(norms);
  const int32_t *row = layer.memberRows, *position = layer.memberPositions;
  for (uint32_t g = 0; g < kvHeads; ++g)
    for (int32_t i = 0, last = -1; i < layer.memberCounts[g];
         ++i, ++row, last = *position++) {
      if (*row < 0 || *row >= layer.lengths[g])
        throw fail(KVC_BAD_ARGUMENT,
                   "{}: layers.{}.members.row must be below the head's rows "
                   "({}), got {} in head {}",
                   path(), index, layer.lengths[g], *row, g);
      if (*position <= last || uint32_t(*position) >= tokens)
        throw fail(KVC_BAD_ARGUMENT,
                   "{}: layers.{}.members.position must ascend from 0 to {} in "
                   "each head, got {} in head {}",
                   path(), index, tokens - 1, inOrder(*position, last), g);
    }
}
