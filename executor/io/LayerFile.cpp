//===- LayerFile.cpp - the input of `apply`: layers of one sequence -------===//

#include "executor/io/LayerFile.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

using namespace kvc::rt;

namespace {

/// Index of the first NaN, or -1.
int64_t findNaN(const TensorView &tensor, kvc_dtype dtype) {
  std::vector<float> values = widened(tensor.data, tensor.elements(), dtype);
  auto at = std::find_if(values.begin(), values.end(),
                         [](float value) { return std::isnan(value); });
  return at == values.end() ? -1 : at - values.begin();
}

} // namespace

LayerFile::LayerFile(const std::string &path) : file(path) {
  size_t count = 0;
  while (file.find(formatted("layers.{}.k", count)))
    ++count;
  // A gap in the numbers would silently drop what is behind it.
  for (auto &[name, tensor] : file.tensors) {
    size_t layer = 0;
    if (!name.starts_with("layers."))
      continue;
    const char *begin = name.data() + 7, *end = name.data() + name.size();
    auto [rest, error] = std::from_chars(begin, end, layer);
    if (error == std::errc() && rest != end && *rest == '.' &&
        (std::string_view(rest) == ".k" || std::string_view(rest) == ".v" ||
         std::string_view(rest) == ".q") &&
        layer >= count)
      throw fail(KVC_BAD_ARGUMENT, "{}: tensor 'layers.{}.k' is missing", path,
                 count);
  }
  if (count == 0)
    throw fail(KVC_BAD_ARGUMENT, "{}: tensor 'layers.0.k' is missing", path);
  for (size_t layer = 0; layer < count; ++layer)
    readLayer(layer);
  readMetadata();
}

const TensorView &LayerFile::tensor(size_t layer, const char *name,
                                    size_t rank) {
  std::string full = formatted("layers.{}.{}", layer, name);
  const TensorView &tensor = file.at(full);
  if (tensor.shape.size() != rank)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor '{}' must have {} dimensions, got {}", path(), full,
               rank, tensor.describe());
  std::optional<kvc_dtype> type = tensor.kvcDtype();
  if (!type)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor '{}' must be F32, F16 or BF16, got {}", path(), full,
               tensor.describe());
  for (uint64_t extent : tensor.shape)
    if (extent == 0 || extent > INT32_MAX)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor '{}' must have 1 to 2^31 - 1 rows in every "
                 "dimension, got {}",
                 path(), full, tensor.describe());
  if (int64_t at = findNaN(tensor, *type); at >= 0)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor '{}' must not hold NaN, got NaN at element {}",
               path(), full, at);
  return tensor;
}

void LayerFile::readLayer(size_t index) {
  auto require = [&](bool holds, const char *name, const TensorView &tensor,
                     const std::string &rule) {
    if (!holds)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor 'layers.{}.{}' must be {}, got {}", path(), index,
                 name, rule, tensor.describe());
  };
  LayerTensors layer;
  layer.k = &tensor(index, "k", 3);
  if (index == 0) {
    dtype = *layer.k->kvcDtype();
    kvHeads = uint32_t(layer.k->shape[0]);
    tokens = uint32_t(layer.k->shape[1]);
    headDim = uint32_t(layer.k->shape[2]);
  }
  std::vector<uint64_t> cache{kvHeads, tokens, headDim};
  std::string type = layers.empty() ? layer.k->dtype : layers[0].k->dtype;
  std::string rule = formatted("{} [{}, {}, {}] as layers.0.k", type, kvHeads,
                               tokens, headDim);
  require(layer.k->shape == cache && layer.k->dtype == type, "k", *layer.k,
          rule);
  layer.v = &tensor(index, "v", 3);
  require(layer.v->shape == cache && layer.v->dtype == type, "v", *layer.v,
          rule);

  std::string prefix = formatted("layers.{}.", index);
  if (file.find(prefix + "k_raw")) {
    layer.kRaw = &tensor(index, "k_raw", 3);
    require(layer.kRaw->shape == cache && layer.kRaw->dtype == type, "k_raw",
            *layer.kRaw, rule);
  }
  if (file.find(prefix + "q")) {
    layer.q = &tensor(index, "q", 3);
    if (!qHeads)
      qHeads = uint32_t(layer.q->shape[0]);
    if (!queries)
      queries = uint32_t(layer.q->shape[1]);
    require(layer.q->shape == std::vector<uint64_t>{qHeads, queries, headDim} &&
                layer.q->dtype == type,
            "q", *layer.q,
            formatted("{} [{}, {}, {}]", type, qHeads, queries, headDim));
    require(qHeads % kvHeads == 0, "q", *layer.q,
            formatted("of a multiple of {} heads", kvHeads));
    require(queries <= tokens, "q", *layer.q,
            formatted("of at most {} queries", tokens));
  }
  if (file.find(prefix + "lse") && layer.q) {
    layer.lse = &tensor(index, "lse", 2);
    require(layer.lse->dtype == "F32" &&
                layer.lse->shape == std::vector<uint64_t>{qHeads, queries},
            "lse", *layer.lse, formatted("F32 [{}, {}]", qHeads, queries));
  }
  if (file.find(prefix + "wo")) {
    layer.wo = &tensor(index, "wo", 2);
    if (!hidden)
      hidden = uint32_t(layer.wo->shape[0]);
    if (!qHeads) // a policy may read norms and no queries
      qHeads = uint32_t(layer.wo->shape[1] / headDim / kvHeads * kvHeads);
    require(layer.wo->dtype == type &&
                layer.wo->shape ==
                    std::vector<uint64_t>{hidden, uint64_t(qHeads) * headDim},
            "wo", *layer.wo,
            formatted("{} [{}, {}]", type, hidden, qHeads * headDim));
  }
  layers.push_back(layer);
}

std::optional<double> LayerFile::readNumber(const char *name) const {
  auto it = file.metadata.find(name);
  if (it == file.metadata.end())
    return std::nullopt;
  const std::string &text = it->second;
  double value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(value) || value == 0)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: metadata '{}' must be a finite number other than 0, got "
               "'{}'",
               path(), name, text);
  return value;
}

void LayerFile::readMetadata() {
  scale = float(readNumber("scale").value_or(0));
  ropeTheta = readNumber("rope_theta");
  if (ropeTheta && *ropeTheta < 0)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: metadata 'rope_theta' must be above 0, got {}", path(),
               *ropeTheta);
}

size_t LayerFile::cacheBytes() const {
  size_t bytes = 0;
  for (const LayerTensors &layer : layers)
    bytes += layer.k->bytes + layer.v->bytes;
  return bytes;
}
