//===- Manifest.cpp - the manifest of an artefact, parsed and checked -----===//

#include "runtime/plan/Manifest.h"

#include "runtime/base/Failure.h"
#include "runtime/base/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace kvc::rt;
using nlohmann::json;

namespace {

constexpr int supportedFormat = 1;
// Far above what any policy has. Times and texts grow with these.
constexpr size_t mostBuffers = 1024, mostVariants = 1024, mostKernels = 1024;

/// Reads fields of one JSON object; the error names the path.
class Reader {
public:
  Reader(const json &object, std::string path)
      : object(object), path(std::move(path)) {
    if (!object.is_object())
      throw fail(KVC_BAD_ARTIFACT, "manifest: {} must be an object, got {}",
                 this->path, quote(object));
  }

  const json &field(const char *name) const {
    auto it = object.find(name);
    if (it == object.end())
      throw fail(KVC_BAD_ARTIFACT, "manifest: {}.{} is missing", path, name);
    return *it;
  }
  uint64_t number(const char *name, uint64_t most = UINT32_MAX) const {
    const json &value = field(name);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
      throw bad(name, "a whole number up to " + std::to_string(most), value);
    return value.get<uint64_t>();
  }
  std::string text(const char *name) const {
    const json &value = field(name);
    if (!value.is_string())
      throw bad(name, "a text", value);
    return value.get<std::string>();
  }
  bool flag(const char *name) const {
    const json &value = field(name);
    if (!value.is_boolean())
      throw bad(name, "true or false", value);
    return value.get<bool>();
  }
  const json &list(const char *name, size_t least = 0,
                   size_t most = SIZE_MAX) const {
    const json &value = field(name);
    if (!value.is_array())
      throw bad(name, "a list", value);
    if (value.size() < least || value.size() > most)
      throw bad(name, fmt::format("a list of {} to {}", least, most),
                value.size());
    return value;
  }
  /// One of `words`; returns which.
  size_t word(const char *name, std::initializer_list<const char *> words) const {
    std::string text = this->text(name), known;
    size_t index = 0;
    for (const char *word : words) {
      if (text == word)
        return index;
      known += (index++ ? ", " : "") + std::string(word);
    }
    throw bad(name, "one of " + known, text);
  }
  /// Index of a buffer, or nothing for null.
  std::optional<unsigned> buffer(const char *name, size_t buffers) const {
    const json &value = field(name);
    if (value.is_null())
      return std::nullopt;
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= buffers)
      throw bad(name, fmt::format("null or one of {} buffers", buffers), value);
    return value.get<unsigned>();
  }
  std::vector<std::string> texts(const char *name) const {
    std::vector<std::string> result;
    for (const json &item : list(name)) {
      if (!item.is_string())
        throw bad(name, "a list of texts", item);
      result.push_back(item.get<std::string>());
    }
    return result;
  }
  Failure bad(const char *name, const std::string &rule,
              const json &value) const {
    return fail(KVC_BAD_ARTIFACT, "manifest: {}.{} must be {}, got {}", path,
                name, rule, quote(value));
  }

private:
  const json &object;
  std::string path;
};

BufferSpec parseBuffer(const json &object, size_t index) {
  Reader reader(object, "buffers[" + std::to_string(index) + "]");
  const json &live = reader.list("live");
  if (live.size() != 2 || !live[0].is_number_unsigned() ||
      !live[1].is_number_unsigned() || live[0] > live[1] ||
      live[1] > UINT32_MAX)
    throw reader.bad("live", "two kernels in order", live);
  return {reader.number("bytes"), reader.texts("dims"), live[0].get<unsigned>(),
          live[1].get<unsigned>()};
}

KernelSpec parseKernel(const json &object, const std::string &path) {
  Reader reader(object, path);
  KernelSpec kernel;
  kernel.name = reader.text("name");
  kernel.kind = reader.text("kind");
  kernel.block = uint32_t(reader.number("block", 1024));
  if (kernel.block == 0 || kernel.block % 32)
    throw reader.bad("block", "a multiple of 32", kernel.block);
  std::vector<std::string> grid = reader.texts("grid");
  if (grid.size() != 3)
    throw reader.bad("grid", "three extents", grid);
  std::copy(grid.begin(), grid.end(), kernel.grid.begin());
  kernel.args = reader.texts("args");
  kernel.skippedWithLse = reader.flag("skipped_with_lse");
  return kernel;
}

Variant parseVariant(const json &object, size_t index) {
  std::string path = "variants[" + std::to_string(index) + "]";
  Reader reader(object, path);
  Variant variant;
  variant.headDim = uint32_t(reader.number("head_dim"));
  variant.group = uint32_t(reader.number("group"));
  variant.vector = uint32_t(reader.number("vector"));
  if (!variant.headDim || !variant.group || !variant.vector)
    throw reader.bad("head_dim", "at least 1, as group and vector", object);
  std::optional<kvc_dtype> dtype = parseDtype(reader.text("dtype"));
  if (!dtype)
    throw reader.bad("dtype", "f32, f16 or bf16", reader.field("dtype"));
  variant.dtype = *dtype;
  for (const json &kernel : reader.list("kernels", 1, mostKernels))
    variant.kernels.push_back(
        parseKernel(kernel, path + ".kernels[" +
                                std::to_string(variant.kernels.size()) + "]"));
  return variant;
}

} // namespace

const char *kvc::rt::dtypeName(kvc_dtype dtype) {
  return dtype == KVC_F32 ? "f32" : dtype == KVC_F16 ? "f16" : "bf16";
}

size_t kvc::rt::dtypeBytes(kvc_dtype dtype) { return dtype == KVC_F32 ? 4 : 2; }

std::optional<kvc_dtype> kvc::rt::parseDtype(const std::string &name) {
  for (kvc_dtype dtype : {KVC_F32, KVC_F16, KVC_BF16})
    if (name == dtypeName(dtype))
      return dtype;
  return std::nullopt;
}

bool Manifest::reads(const std::string &name) const {
  for (const Variant &variant : variants)
    for (const KernelSpec &kernel : variant.kernels)
      if (std::find(kernel.args.begin(), kernel.args.end(), name) !=
          kernel.args.end())
        return true;
  return false;
}

Manifest Manifest::parse(const std::string &text) {
  json root = parseJson(text);
  if (root.is_discarded())
    throw fail(KVC_BAD_ARTIFACT, "manifest: must be JSON, got '{}'",
               excerpt(text));
  Reader reader(root, "root");
  if (uint64_t format = reader.number("format"); format != supportedFormat)
    throw fail(KVC_BAD_ARTIFACT,
               "manifest: this runtime reads format {}, got format {}; compile "
               "the policy again",
               supportedFormat, format);
  Manifest manifest;
  manifest.policy = reader.text("policy");
  const json &queries = reader.field("queries");
  if (queries.is_string() && queries != "all")
    throw reader.bad("queries", "\"all\" or a whole number", queries);
  manifest.queries =
      queries == "all"
          ? KVC_ALL_QUERIES
          : uint32_t(reader.number("queries", KVC_ALL_QUERIES - 1));
  if (!reader.field("window").is_null())
    manifest.window = uint32_t(reader.number("window"));
  for (const json &buffer : reader.list("buffers", 0, mostBuffers))
    manifest.buffers.push_back(parseBuffer(buffer, manifest.buffers.size()));
  size_t buffers = manifest.buffers.size();
  manifest.lseBuffer = reader.buffer("lse_buffer", buffers);
  if (const json &scores = reader.field("scores"); !scores.is_null()) {
    Reader inner(scores, "scores");
    std::optional<unsigned> buffer = inner.buffer("buffer", buffers);
    if (!buffer)
      throw inner.bad("buffer", "a buffer", nullptr);
    manifest.scores = {*buffer, inner.word("heads", {"kv_heads", "one_head"}) ==
                                    1};
  }
  const json &params = reader.field("params");
  if (!params.is_object())
    throw reader.bad("params", "an object", params);
  for (auto &[name, value] : params.items()) {
    if (!value.is_number())
      throw reader.bad("params", "an object of numbers", params);
    manifest.params[name] = value.get<double>();
  }
  for (const json &variant : reader.list("variants", 1, mostVariants))
    manifest.variants.push_back(
        parseVariant(variant, manifest.variants.size()));
  return manifest;
}
