//===- LayerFile.cpp - the input of `apply`: layers of one sequence -------===//

#include "executor/io/LayerFile.h"

#include "executor/io/FindNaN.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <charconv>
#include <cmath>

using namespace kvc::rt;

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
  ofRows = file.find("layers.0.lengths") || file.find("layers.0.positions");
  if (ofRows) {
    // T comes first: it may be known of a later layer's rows only.
    std::optional<uint32_t> length = readWhole("length", 1);
    for (size_t layer = 0; layer < count; ++layer)
      readRows(layer, layers.emplace_back(), length);
    if (tokens == 0)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: metadata 'length' must say how many tokens there were, "
                 "where there is no row",
                 path);
  } else {
    layers.resize(count);
  }
  merged = file.find("layers.0.members.counts");
  if (merged && !ofRows)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor 'layers.0.members.counts' goes with "
               "'layers.0.lengths'",
               path);
  for (size_t layer = 0; layer < count; ++layer) {
    readLayer(layer);
    readStates(layer);
    if (merged)
      readMembers(layer);
  }
  readMetadata();
}

const TensorView &LayerFile::tensor(size_t layer, const char *name, size_t rank,
                                    uint64_t leastRows) {
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
  for (size_t i = 0; i < rank; ++i)
    if (tensor.shape[i] < (i ? 1 : leastRows) || tensor.shape[i] > INT32_MAX)
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

std::optional<uint32_t> LayerFile::readWhole(const char *name,
                                             uint32_t least) const {
  auto it = file.metadata.find(name);
  if (it == file.metadata.end())
    return std::nullopt;
  const std::string &text = it->second;
  uint32_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      value < least || value > INT32_MAX)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: metadata '{}' must be a whole number of {} to {}, got '{}'",
               path(), name, least, INT32_MAX, text);
  return value;
}

void LayerFile::readLayer(size_t index) {
  auto require = [&](bool holds, const char *name, const TensorView &tensor,
                     const std::string &rule) {
    if (!holds)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor 'layers.{}.{}' must be {}, got {}", path(), index,
                 name, rule, tensor.describe());
  };
  LayerTensors &layer = layers[index];
  auto ofCache = [&](const char *name) -> const TensorView & {
    // A layer of a cache may have no row at all.
    return ofRows ? tensor(index, name, 2, 0) : tensor(index, name, 3);
  };
  layer.k = &ofCache("k");
  if (index == 0) {
    dtype = *layer.k->kvcDtype();
    if (!ofRows) {
      kvHeads = uint32_t(layer.k->shape[0]);
      tokens = uint32_t(layer.k->shape[1]);
    }
    headDim = uint32_t(layer.k->shape.back());
  }
  std::vector<uint64_t> cache{kvHeads, tokens, headDim};
  std::string type = layers[0].k->dtype;
  std::string rule = formatted("{} [{}, {}, {}] as layers.0.k", type, kvHeads,
                               tokens, headDim);
  if (ofRows) {
    cache = {layer.rows, headDim};
    rule = formatted("{} [{}, {}], a row for each position", type, layer.rows,
                     headDim);
  }
  require(layer.k->shape == cache && layer.k->dtype == type, "k", *layer.k,
          rule);
  layer.v = &ofCache("v");
  require(layer.v->shape == cache && layer.v->dtype == type, "v", *layer.v,
          rule);

  std::string prefix = formatted("layers.{}.", index);
  if (file.find(prefix + "k_raw")) {
    layer.kRaw = &ofCache("k_raw");
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
}

void LayerFile::readStates(size_t index) {
  std::string prefix = formatted("layers.{}.state.", index);
  LayerTensors &layer = layers[index];
  std::vector<uint64_t> shape{kvHeads, tokens};
  std::string rule = formatted("F32 [{}, {}]", kvHeads, tokens);
  if (ofRows) {
    shape = {layer.rows};
    rule = formatted("F32 [{}], a number for each row", layer.rows);
  }
  for (const auto &[name, tensor] : file.tensors) {
    if (!name.starts_with(prefix))
      continue;
    if (tensor.dtype != "F32" || tensor.shape != shape)
      throw fail(KVC_BAD_ARGUMENT, "{}: tensor '{}' must be {}, got {}", path(),
                 name, rule, tensor.describe());
    if (int64_t at = findNaN(tensor, KVC_F32); at >= 0)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor '{}' must not hold NaN, got NaN at element {}",
                 path(), name, at);
    layer.states[name.substr(prefix.size())] = &tensor;
  }
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
      !std::isfinite(float(value)) || float(value) == 0)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: metadata '{}' must be a finite f32 other than 0, got "
               "'{}'",
               path(), name, text);
  return value;
}

void LayerFile::readMetadata() {
  scale = float(readNumber("scale").value_or(0));
  newQueries = readWhole("new", 0);
  if (newQueries && *newQueries > queries)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: metadata 'new' must be at most the {} queries of q, got {}",
               path(), queries, *newQueries);
  since = readWhole("since", 0).value_or(0);
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
