//===- Manifest.cpp - the manifest of an artefact, parsed and checked -----===//

#include "runtime/plan/Manifest.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "runtime/base/JsonReader.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <bit>
#include <charconv>

using namespace kvc::rt;
using Kind = JsonValue::Kind;

namespace {

constexpr uint64_t oldestFormat = 2, newestFormat = 4;
// Far above what any policy has. Times and texts grow with these.
constexpr size_t mostBuffers = 1024, mostVariants = 1024, mostKernels = 1024,
                 mostStates = 1024;
// What a launch's parameters hold on every GPU (4 KiB), in 64-bit slots.
constexpr size_t mostArgs = KVC_MAX_KERNEL_ARGUMENTS;

/// Reads fields of one JSON object; the error names the path.
class Reader {
public:
  Reader(const JsonValue &object, std::string path)
      : object(object), path(std::move(path)) {
    if (!object.is(Kind::Object))
      throw fail(KVC_BAD_ARTIFACT, "manifest: {} must be an object, got {}",
                 this->path, object.quote());
  }

  const JsonValue &field(const char *name) const {
    const JsonValue *found = object.find(name);
    if (!found)
      throw fail(KVC_BAD_ARTIFACT, "manifest: {}.{} is missing", path, name);
    return *found;
  }
  uint64_t number(const char *name, uint64_t most = UINT32_MAX) const {
    const JsonValue &value = field(name);
    std::optional<uint64_t> whole = value.whole();
    if (!whole || *whole > most)
      throw bad(name, "a whole number up to " + std::to_string(most), value);
    return *whole;
  }
  /// Of a block.
  uint32_t threads(const char *name) const {
    auto threads = uint32_t(number(name, 1024));
    if (!threads || threads % 32)
      throw bad(name, "a multiple of 32", field(name));
    return threads;
  }
  const std::string &text(const char *name) const {
    const JsonValue &value = field(name);
    if (!value.is(Kind::Text))
      throw bad(name, "a text", value);
    return value.text;
  }
  bool flag(const char *name) const {
    const JsonValue &value = field(name);
    if (!value.is(Kind::Bool))
      throw bad(name, "true or false", value);
    return value.boolean;
  }
  const std::vector<JsonValue> &list(const char *name, size_t least = 0,
                                     size_t most = SIZE_MAX) const {
    const JsonValue &value = field(name);
    if (!value.is(Kind::List))
      throw bad(name, "a list", value);
    if (value.items.size() < least || value.items.size() > most)
      throw bad(name, formatted("a list of {} to {}", least, most),
                std::to_string(value.items.size()));
    return value.items;
  }
  /// One of `words`; returns which.
  size_t word(const char *name,
              std::initializer_list<const char *> words) const {
    const std::string &text = this->text(name);
    std::string known;
    size_t index = 0;
    for (const char *word : words) {
      if (text == word)
        return index;
      known += (index++ ? ", " : "") + std::string(word);
    }
    throw bad(name, "one of " + known, field(name));
  }
  /// Index of a buffer, or nothing for null.
  std::optional<unsigned> buffer(const char *name, size_t buffers) const {
    const JsonValue &value = field(name);
    if (value.is(Kind::Null))
      return std::nullopt;
    std::optional<uint64_t> whole = value.whole();
    if (!whole || *whole >= buffers)
      throw bad(name, formatted("null or one of {} buffers", buffers), value);
    return unsigned(*whole);
  }
  std::vector<Extent> extents(const char *name) const {
    std::vector<Extent> result;
    for (const JsonValue &item : list(name)) {
      if (!item.is(Kind::Text))
        throw bad(name, "a list of texts", item);
      result.emplace_back(item.text);
    }
    return result;
  }
  Failure bad(const char *name, const std::string &rule,
              const std::string &got) const {
    return fail(KVC_BAD_ARTIFACT, "manifest: {}.{} must be {}, got {}", path,
                name, rule, got);
  }
  Failure bad(const char *name, const std::string &rule,
              const JsonValue &got) const {
    return bad(name, rule, got.quote());
  }

private:
  const JsonValue &object;
  std::string path;
};

BufferSpec parseBuffer(const JsonValue &object, size_t index) {
  Reader reader(object, "buffers[" + std::to_string(index) + "]");
  const std::vector<JsonValue> &live = reader.list("live");
  std::optional<uint64_t> first, last;
  if (live.size() == 2)
    first = live[0].whole(), last = live[1].whole();
  if (!first || !last || *first > *last || *last > UINT32_MAX)
    throw reader.bad("live", "two kernels in order", reader.field("live"));
  return {reader.number("bytes"), reader.extents("dims"), unsigned(*first),
          unsigned(*last)};
}

/// "scratch.3" or a name of kvc/arguments.def.
Slot parseSlot(const std::string &name, size_t buffers, bool hasLse) {
  constexpr std::string_view prefix = "scratch.";
  if (name.starts_with(prefix)) {
    uint32_t index = 0;
    const char *end = name.data() + name.size();
    auto [rest, error] =
        std::from_chars(name.data() + prefix.size(), end, index);
    if (error != std::errc() || rest != end || index >= buffers)
      throw fail(KVC_BAD_ARTIFACT, "manifest: there are {} buffers, got '{}'",
                 buffers, name);
    return {true, index};
  }
  std::optional<Argument> argument = findArgument(name);
  if (!argument)
    throw fail(KVC_BAD_ARTIFACT, "manifest: unknown kernel argument '{}'",
               name);
  if (*argument == Argument::lse && !hasLse)
    throw fail(KVC_BAD_ARTIFACT,
               "manifest: a kernel reads lse, but lse_buffer is null");
  return {false, uint32_t(*argument)};
}

KernelSpec parseKernel(const JsonValue &object, const std::string &path,
                       const Manifest &manifest) {
  Reader reader(object, path);
  KernelSpec kernel;
  kernel.name = reader.text("name");
  kernel.kind = reader.text("kind");
  kernel.phase =
      Phase(reader.word("phase", {"prepare", "score", "select", "compact"}));
  kernel.block = kernel.warpgroupBlock = reader.threads("block");
  if (object.find("warpgroup_block"))
    kernel.warpgroupBlock = reader.threads("warpgroup_block");
  kernel.grid = reader.extents("grid");
  if (kernel.grid.size() != 3)
    throw reader.bad("grid", "three extents", reader.field("grid"));
  for (const JsonValue &arg : reader.list("args", 0, mostArgs)) {
    if (!arg.is(Kind::Text))
      throw reader.bad("args", "a list of texts", arg);
    kernel.slots.push_back(parseSlot(arg.text, manifest.buffers.size(),
                                     manifest.lseBuffer.has_value()));
  }
  kernel.skippedWithLse = reader.flag("skipped_with_lse");
  if (object.find("above_tokens"))
    kernel.aboveTokens = uint32_t(reader.number("above_tokens"));
  if (object.find("up_to_tokens"))
    kernel.upToTokens = uint32_t(reader.number("up_to_tokens"));
  if (object.find("shared_bytes"))
    kernel.sharedBytes =
        uint32_t(reader.number("shared_bytes", mostSharedBytes));
  return kernel;
}

Variant parseVariant(const JsonValue &object, size_t index,
                     const Manifest &manifest) {
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
  if (object.find("host_alignment")) { // older ones want what the GPU wants
    variant.hostAlignment = uint32_t(reader.number("host_alignment"));
    if (!std::has_single_bit(variant.hostAlignment))
      throw reader.bad("host_alignment", "a power of two",
                       reader.field("host_alignment"));
  }
  if (object.find("cache")) // variants of older artefacts are dense
    variant.cache = kvc_cache_kind(reader.word(
        "cache", {"dense", "ragged", "paged", "merged", "merged_paged"}));
  if (object.find("into")) // and packed
    variant.into =
        kvc_cache_kind(reader.word("into", {"packed", "ragged", "paged"}));
  for (const JsonValue &kernel : reader.list("kernels", 1, mostKernels))
    variant.kernels.push_back(parseKernel(
        kernel,
        path + ".kernels[" + std::to_string(variant.kernels.size()) + "]",
        manifest));
  return variant;
}

} // namespace

uint32_t Manifest::queriesOf(uint32_t tokens,
                             std::optional<uint32_t> newQueries) const {
  if (queries != KVC_ALL_QUERIES)
    return queries;
  return leastQueries && newQueries
             ? std::max(*newQueries, std::min(*leastQueries, tokens))
             : tokens;
}

bool KernelSpec::has(Argument argument) const {
  for (const Slot &slot : slots)
    if (!slot.scratch && slot.index == uint32_t(argument))
      return true;
  return false;
}

bool Variant::reads(Argument argument) const {
  return std::ranges::any_of(
      kernels, [&](const KernelSpec &kernel) { return kernel.has(argument); });
}

bool Manifest::reads(Argument argument) const {
  return std::ranges::any_of(variants, [&](const Variant &variant) {
    return variant.reads(argument);
  });
}

std::vector<std::string> Manifest::kernelNames() const {
  std::vector<std::string> names;
  for (const Variant &variant : variants)
    for (const KernelSpec &kernel : variant.kernels)
      names.push_back(kernel.name);
  return names;
}

Manifest Manifest::parse(const std::string &text) {
  std::optional<JsonValue> root = readJson(text);
  if (!root)
    throw fail(KVC_BAD_ARTIFACT, "manifest: must be JSON, got '{}'",
               excerpt(text));
  Reader reader(*root, "root");
  if (uint64_t format = reader.number("format");
      format < oldestFormat || format > newestFormat)
    throw fail(KVC_BAD_ARTIFACT,
               "manifest: this runtime reads formats {} to {}, got format {}; "
               "compile the policy again",
               oldestFormat, newestFormat, format);
  Manifest manifest;
  manifest.policy = reader.text("policy");
  const JsonValue &queries = reader.field("queries");
  if (queries.is(Kind::Text) && queries.text != "all")
    throw reader.bad("queries", "\"all\" or a whole number", queries);
  manifest.queries =
      queries.is(Kind::Text)
          ? KVC_ALL_QUERIES
          : uint32_t(reader.number("queries", KVC_ALL_QUERIES - 1));
  if (!reader.field("window").is(Kind::Null))
    manifest.window = uint32_t(reader.number("window"));
  if (root->find("least_queries"))
    manifest.leastQueries = uint32_t(reader.number("least_queries", 1024));
  if (root->find("states"))
    for (const JsonValue &state : reader.list("states", 1, mostStates)) {
      if (!state.is(Kind::Text))
        throw reader.bad("states", "a list of texts", state);
      manifest.states.push_back(state.text);
    }
  for (const JsonValue &buffer : reader.list("buffers", 0, mostBuffers))
    manifest.buffers.push_back(parseBuffer(buffer, manifest.buffers.size()));
  size_t buffers = manifest.buffers.size();
  manifest.lseBuffer = reader.buffer("lse_buffer", buffers);
  if (const JsonValue &scores = reader.field("scores");
      !scores.is(Kind::Null)) {
    Reader inner(scores, "scores");
    std::optional<unsigned> buffer = inner.buffer("buffer", buffers);
    if (!buffer)
      throw inner.bad("buffer", "a buffer", "null");
    manifest.scores = {*buffer,
                       inner.word("heads", {"kv_heads", "one_head"}) == 1};
  }
  const JsonValue &params = reader.field("params");
  if (!params.is(Kind::Object))
    throw reader.bad("params", "an object", params);
  for (size_t i = 0; i < params.items.size(); ++i) {
    std::optional<double> value = params.items[i].number();
    if (!value)
      throw reader.bad("params", "an object of numbers", params);
    manifest.params[params.keys[i]] = *value;
  }
  for (const JsonValue &variant : reader.list("variants", 1, mostVariants))
    manifest.variants.push_back(
        parseVariant(variant, manifest.variants.size(), manifest));
  return manifest;
}
