//===- CacheFile.cpp - a compressed cache that outlives its process -------===//

#include "executor/session/CacheFile.h"

#include "runtime/base/Failure.h"
#include "executor/eviction/MergedRows.h"
#include "executor/io/Safetensors.h"

#include <charconv>
#include <cstring>

using namespace kvc::rt;

namespace {

const char format[] = "1";

class CacheReader {
public:
  CacheReader(const Engine &engine, const std::string &path)
      : engine(engine), config(engine.config), file(path) {}

  Session read() {
    expect("kvc_cache", format);
    expect("architecture", config.architecture);
    expect("layers", formatted("{}", config.layers));
    const TensorView &first = file.at("layers.0.k");
    std::optional<kvc_dtype> dtype = first.kvcDtype();
    if (!dtype)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor 'layers.0.k' must be F32, F16 or BF16, got {}",
                 file.path, first.describe());
    Session session(engine, *dtype);
    session.position = readNumber("position", config.maxPositions);
    // Who does not say how many queries are new has none that are not.
    session.unread = file.metadata.contains("new")
                         ? readNumber("new", session.position)
                         : session.position;
    if (file.metadata.contains("since"))
      session.since = readNumber("since", session.position);
    uint32_t kept = queries();
    if (kept)
      session.keepQueries(kept);
    for (uint32_t l = 0; l < config.layers; ++l) {
      std::string prefix = formatted("layers.{}.", l);
      session.cache->restore(
          l, readLayer(prefix, safetensorsName(*dtype), session.position));
      if (kept)
        session.queries->restore(
            l, numbers<float>(prefix + "q", "F32",
                              {config.qHeads, kept, config.headDim}));
    }
    session.peakBytes = session.cache->usedBytes();
    const TensorView &logits = tensor("logits", "F32", {config.vocab});
    session.logits.resize(config.vocab);
    std::memcpy(session.logits.data(), logits.data, logits.bytes);
    return session;
  }

private:
  const Engine &engine;
  const Config &config;
  SafetensorsFile file;

  std::string text(const std::string &name) const {
    auto it = file.metadata.find(name);
    return it == file.metadata.end() ? "" : it->second;
  }
  void expect(const std::string &name, const std::string &want) const {
    if (text(name) != want)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: {} must be '{}' to go with the model, got '{}'",
                 file.path, name, want, text(name));
  }
  uint32_t readNumber(const char *name, uint32_t most) const {
    std::string digits = text(name);
    uint32_t number = 0;
    auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size() ||
        number > most)
      throw fail(KVC_BAD_ARGUMENT, "{}: {} must be 0 to {}, got '{}'",
                 file.path, name, most, digits);
    return number;
  }
  /// How many queries come with each layer.
  uint32_t queries() const {
    const TensorView *first = file.find("layers.0.q");
    if (!first)
      return 0;
    if (first->shape.size() != 3 || first->shape[1] > config.maxPositions)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor 'layers.0.q' must have up to {} queries for each "
                 "head, got {}",
                 file.path, config.maxPositions, first->describe());
    return uint32_t(first->shape[1]);
  }
  const TensorView &tensor(const std::string &name, const std::string &dtype,
                           const std::vector<uint64_t> &shape) const {
    const TensorView &found = file.at(name);
    if (found.dtype != dtype || found.shape != shape)
      throw fail(KVC_BAD_ARGUMENT, "{}: tensor '{}' must be {} [{}], got {}",
                 file.path, name, dtype, fmt::join(shape, ", "),
                 found.describe());
    return found;
  }
  template <typename T>
  std::vector<T> numbers(const std::string &name, const char *dtype,
                         const std::vector<uint64_t> &shape) const {
    const TensorView &view = tensor(name, dtype, shape);
    std::vector<T> values(view.elements());
    std::memcpy(values.data(), view.data, view.bytes);
    return values;
  }
  /// Rows per head, none negative, at most `most`.
  std::vector<int32_t> counts(const std::string &name, uint64_t most) const {
    auto values = numbers<int32_t>(name, "I32", {config.kvHeads});
    for (int32_t value : values)
      if (value < 0 || uint64_t(value) > most)
        throw fail(KVC_BAD_ARGUMENT, "{}: {} must be 0 to {}, got {}",
                   file.path, name, most, value);
    return values;
  }

  /// Of the rows' tokens; nothing in a file without them.
  std::vector<int32_t> positions(const std::string &name,
                                 const std::vector<int32_t> &counts,
                                 uint64_t rows, uint32_t position) const {
    if (!file.find(name))
      return {};
    auto values = numbers<int32_t>(name, "I32", {rows});
    auto value = values.begin();
    for (size_t h = 0; h < counts.size(); ++h)
      for (int32_t before = -1, i = 0; i < counts[h]; ++i, before = *value++)
        if (*value <= before || uint32_t(*value) >= position)
          throw fail(KVC_BAD_ARGUMENT,
                     "{}: {} must ascend from 0 to {} in each head, got {} in "
                     "head {}",
                     file.path, name, int64_t(position) - 1,
                     inOrder(*value, before), h);
    return values;
  }

  RaggedCache::Contents readLayer(const std::string &prefix,
                                  const std::string &dtype,
                                  uint32_t position) const {
    uint64_t d = config.headDim, rows = 0, entries = 0;
    auto rowCounts = counts(prefix + "counts", position);
    for (int32_t count : rowCounts)
      rows += uint64_t(count);
    const TensorView &k = tensor(prefix + "k", dtype, {rows, d});
    const TensorView &v = tensor(prefix + "v", dtype, {rows, d});
    auto places = positions(prefix + "positions", rowCounts, rows, position);
    RaggedCache::Members members;
    if (file.find(prefix + "members.counts")) {
      auto memberCounts = counts(prefix + "members.counts", position);
      for (int32_t count : memberCounts)
        entries += uint64_t(count);
      auto row = numbers<int32_t>(prefix + "members.row", "I32", {entries});
      auto place =
          numbers<int32_t>(prefix + "members.position", "I32", {entries});
      auto norm = numbers<float>(prefix + "members.norm", "F32", {entries});
      size_t at = 0;
      for (size_t h = 0; h < memberCounts.size(); ++h) {
        auto &head = members.emplace_back();
        for (int32_t i = 0; i < memberCounts[h]; ++i, ++at) {
          if (row[at] < 0 || row[at] >= rowCounts[h] || place[at] < 0 ||
              uint32_t(place[at]) >= position)
            throw fail(KVC_BAD_ARGUMENT,
                       "{}: {}members must name rows below {} and positions "
                       "below {}, got {} and {}",
                       file.path, prefix, rowCounts[h], position, row[at],
                       place[at]);
          head.push_back({uint32_t(row[at]), uint32_t(place[at]), norm[at]});
        }
      }
    }
    return {rowCounts,
            {k.data, k.data + k.bytes},
            {v.data, v.data + v.bytes},
            std::move(members),
            std::move(places),
            states(prefix + "state.", rows)};
  }

  RaggedCache::States states(const std::string &prefix, uint64_t rows) const {
    RaggedCache::States all;
    for (const auto &[name, view] : file.tensors)
      if (name.starts_with(prefix))
        all[name.substr(prefix.size())] = numbers<float>(name, "F32", {rows});
    return all;
  }
};

} // namespace

void kvc::rt::saveCache(const Session &session, const std::string &path) {
  const Config &config = session.engine.config;
  Tensors tensors;
  for (uint32_t l = 0; l < config.layers; ++l) {
    RaggedCache::Contents layer = session.cache->contents(l);
    std::string prefix = formatted("layers.{}.", l);
    uint64_t rows = 0;
    for (int32_t count : layer.counts)
      rows += uint64_t(count);
    std::string dtype = safetensorsName(session.cache->dtype);
    tensors[prefix + "counts"] =
        TensorData::of("I32", {config.kvHeads}, layer.counts);
    tensors[prefix + "k"] =
        TensorData::of(dtype, {rows, config.headDim}, layer.k);
    tensors[prefix + "v"] =
        TensorData::of(dtype, {rows, config.headDim}, layer.v);
    if (layer.positions.size() == rows)
      tensors[prefix + "positions"] =
          TensorData::of("I32", {rows}, layer.positions);
    if (session.queries && session.queries->count(l))
      tensors[prefix + "q"] = TensorData::of(
          "F32", {config.qHeads, session.queries->count(l), config.headDim},
          session.queries->contents(l));
    for (const auto &[name, numbers] : layer.states)
      tensors[prefix + "state." + name] =
          TensorData::of("F32", {rows}, numbers);
    addMembers(tensors, prefix, tableOf(layer.members));
  }
  tensors["logits"] = TensorData::of("F32", {config.vocab}, session.logits);
  writeTensors({{path,
                 tensors,
                 {{"kvc_cache", format},
                  {"architecture", config.architecture},
                  {"layers", formatted("{}", config.layers)},
                  {"position", formatted("{}", session.position)},
                  {"since", formatted("{}", session.since)},
                  {"new", formatted("{}", session.unread)}}}});
}

Session kvc::rt::loadCache(const Engine &engine, const std::string &path) {
  return CacheReader(engine, path).read();
}
