//===- Plan.cpp - a module, fitted to an engine's limits ------------------===//

#include "runtime/plan/Plan.h"

#include "runtime/base/Boundary.h"
#include "runtime/base/DType.h"

#include <algorithm>
#include <array>
#include <optional>

using namespace kvc::rt;

static constexpr uint64_t mostBytes = uint64_t(1) << 48;

kvc_plan::kvc_plan(kvc_module &module, const kvc_plan_options &options)
    : module(module), options(options) {
  if (!options.kv_heads || !options.q_heads ||
      options.q_heads % options.kv_heads)
    throw fail(KVC_BAD_ARGUMENT,
               "q_heads must be a multiple of kv_heads, got {} and {}",
               options.q_heads, options.kv_heads);
  if (!options.max_batch || !options.max_tokens)
    throw fail(KVC_BAD_ARGUMENT,
               "max_batch and max_tokens must be at least 1, got {} and {}",
               options.max_batch, options.max_tokens);
  if (options.max_batch > 65535 || options.kv_heads > KVC_MAX_KV_HEADS ||
      uint64_t(options.max_tokens) * options.kv_heads > INT32_MAX)
    throw fail(KVC_EXCEEDS_LIMITS,
               "max_batch must be below 2^16, kv_heads at most {} and "
               "max_tokens * kv_heads below 2^31, got {}, {} and {} tokens",
               KVC_MAX_KV_HEADS, options.max_batch, options.kv_heads,
               options.max_tokens);
  if (options.max_tokens > KVC_MAX_COUNT)
    throw fail(KVC_EXCEEDS_LIMITS, "max_tokens must be at most {}, got {}",
               KVC_MAX_COUNT, options.max_tokens);
  if (uint32_t(numberOf(options.dtype)) > KVC_BF16)
    throw fail(KVC_BAD_ARGUMENT,
               "dtype must be 0 (f32), 1 (f16) or 2 (bf16), got {}",
               numberOf(options.dtype));
  if (uint32_t(numberOf(options.cache)) > KVC_MERGED_PAGED)
    throw fail(KVC_BAD_ARGUMENT,
               "cache must be 0 (dense), 1 (ragged), 2 (paged), 3 (merged) or "
               "4 (merged_paged), got {}",
               numberOf(options.cache));
  if (uint32_t(numberOf(options.into)) > KVC_PAGED)
    throw fail(KVC_BAD_ARGUMENT,
               "into must be 0 (packed), 1 (ragged) or 2 (paged), got {}",
               numberOf(options.into));
  chooseVariant();
  placeBuffers();
  for (auto [argument, bit] : {std::pair{Argument::wo, KVC_READS_WO},
                               {Argument::table, KVC_READS_TABLE},
                               {Argument::state, KVC_READS_STATE},
                               {Argument::k_raw, KVC_READS_RAW_KEYS},
                               {Argument::rope, KVC_READS_ANGLES},
                               {Argument::member_rows, KVC_MERGES}})
    inputs |= variant->reads(argument) ? unsigned(bit) : 0;
  if (module.manifest.leastQueries)
    inputs |= KVC_READS_NEW_QUERIES;
  for (const KernelSpec &kernel : variant->kernels) {
    bool moves = kernel.has(Argument::moves);
    movesKept |= moves;
    readsValues[size_t(kernel.phase)] |= kernel.has(Argument::v) && !moves;
  }
  // A grid that cannot be computed is refused here, not in mid-prefill.
  Symbols limits =
      symbols(options.max_batch, options.max_tokens, options.max_tokens, 1);
  for (const KernelSpec &kernel : variant->kernels)
    for (const Extent &extent : kernel.grid)
      extent.evaluate(limits);
}

/// As --shape has it; a dense cache and packed rows go without saying.
static std::string shapeText(uint32_t headDim, uint32_t group, kvc_dtype dtype,
                             kvc_cache_kind cache, kvc_cache_kind into) {
  static constexpr const char *caches[] = {"", ",cache=ragged", ",cache=paged",
                                           ",cache=merged",
                                           ",cache=merged_paged"};
  static constexpr const char *intos[] = {"", ",into=ragged", ",into=paged"};
  return formatted("head_dim={},group={},dtype={}{}{}", headDim, group,
                   dtypeName(dtype), caches[cache], intos[into]);
}

void kvc_plan::chooseVariant() {
  uint32_t group = options.q_heads / options.kv_heads, kernels = 0;
  std::string known;
  for (const Variant &v : module.manifest.variants) {
    known += (known.empty() ? "" : "; ") +
             shapeText(v.headDim, v.group, v.dtype, v.cache, v.into);
    if (v.headDim == options.head_dim && v.group == group &&
        v.dtype == options.dtype && v.cache == options.cache &&
        v.into == options.into) {
      variant = &v;
      firstKernel = kernels;
    }
    kernels += uint32_t(v.kernels.size());
  }
  if (!variant)
    throw fail(KVC_UNSUPPORTED, "policy '{}' is compiled for {}; got {}",
               module.manifest.policy, known,
               shapeText(options.head_dim, group, options.dtype, options.cache,
                         options.into));
}

Symbols kvc_plan::symbols(uint32_t batch, uint32_t tokens, uint32_t queries,
                          uint32_t indexCapacity) const {
  Symbols values;
  values[size_t(Symbol::Batch)] = batch;
  values[size_t(Symbol::QHeads)] = options.q_heads;
  values[size_t(Symbol::KvHeads)] = options.kv_heads;
  values[size_t(Symbol::HeadDim)] = options.head_dim;
  values[size_t(Symbol::Tokens)] = tokens;
  values[size_t(Symbol::QRows)] = std::min(queries, tokens);
  values[size_t(Symbol::IndexCapacity)] = indexCapacity;
  return values;
}

Failure kvc_plan::exceedsWorkspace(size_t buffer) const {
  return fail(KVC_EXCEEDS_LIMITS,
              "the workspace must be at most {} bytes, scratch buffer {} of "
              "max_batch {} and max_tokens {} takes more",
              mostBytes, buffer, options.max_batch, options.max_tokens);
}

uint64_t kvc_plan::bytesOf(size_t buffer, const Symbols &limits) const {
  const BufferSpec &spec = module.manifest.buffers[buffer];
  uint64_t bytes = spec.bytes;
  for (const Extent &dim : spec.dims)
    if (__builtin_mul_overflow(bytes, dim.evaluate(limits), &bytes) ||
        bytes > mostBytes)
      throw exceedsWorkspace(buffer);
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Each buffer gets the lowest place that no buffer with an overlapping life
/// has taken; what prepare kernels leave, a place beside each other, too.
void kvc_plan::placeBuffers() {
  struct Placed {
    uint64_t begin, end;
    unsigned first, last;
  };
  std::vector<Placed> placed;
  Symbols limits =
      symbols(options.max_batch, options.max_tokens, options.max_tokens, 0);
  Symbols ofOne = limits;
  ofOne[size_t(Symbol::Batch)] = 1;
  for (size_t i = 0; i < module.manifest.buffers.size(); ++i) {
    const BufferSpec &buffer = module.manifest.buffers[i];
    uint64_t bytes = bytesOf(i, limits), begin = 0;
    std::sort(placed.begin(), placed.end(),
              [](auto &a, auto &b) { return a.begin < b.begin; });
    for (const Placed &other : placed)
      if (other.first <= buffer.last && buffer.first <= other.last &&
          begin < other.end && other.begin < begin + bytes)
        begin = other.end;
    if (begin + bytes > mostBytes)
      throw exceedsWorkspace(i);
    placed.push_back({begin, begin + bytes, buffer.first, buffer.last});
    places.push_back({begin, std::nullopt});
    workspaceBytes = std::max(workspaceBytes, begin + bytes);
    if (buffer.first < variant->kernels.size() &&
        variant->kernels[buffer.first].phase == Phase::Prepare) {
      places.back().prepared = preparedBytes;
      preparedBytes += bytesOf(i, ofOne);
    }
  }
}

uint32_t kvc_plan::queriesOf(const kvc_layer_args &args) const {
  const Manifest &manifest = module.manifest;
  if (!(inputs & KVC_READS_NEW_QUERIES) || !args.new_queries)
    return manifest.queriesOf(args.tokens);
  uint32_t most = 0;
  if (module.device->onHost())
    for (uint32_t s = 0; s < args.batch; ++s)
      most = std::max(most, uint32_t(args.new_queries[s]));
  return manifest.queriesOf(args.tokens, most);
}

kvc_plan_info kvc_plan::query() const {
  kvc_plan_info info = {};
  info.struct_size = sizeof info;
  info.workspace_bytes = workspaceBytes;
  info.workspace_alignment = alignment;
  info.prepared_bytes = preparedBytes;
  for (const KernelSpec &kernel : variant->kernels)
    info.launches += !(kernel.skippedWithLse && options.lse_given) &&
                     kernel.isFor(options.max_tokens) &&
                     !(kernel.phase == Phase::Compact && movesKept);
  info.queries = module.manifest.queries;
  info.inputs = inputs;
  info.least_queries = module.manifest.leastQueries.value_or(0);
  info.row_states = uint32_t(module.manifest.states.size());
  info.vector = variant->vector;
  info.row_alignment = uint32_t(rowAlignment());
  info.scores_offset = -1;
  if (module.manifest.scores) {
    info.scores_offset = int64_t(places[module.manifest.scores->buffer].offset);
    bool ofAll = module.manifest.scores->oneHead;
    info.scores_heads = ofAll ? 1 : options.kv_heads;
    info.scores_by_position = ofAll && options.cache != KVC_DENSE;
  }
  return info;
}

LseView kvc_plan::lseOf(const kvc_layer_args &args) const {
  constexpr float log2e = 1.44269504088896340736f;
  if (args.lse)
    return {args.lse, args.lse_rows, args.lse_batch_stride,
            args.lse_head_stride, args.lse_base_2 ? 1.0f : log2e};
  if (!module.manifest.lseBuffer) // no kernel reads it
    return {};
  uint32_t queries = module.manifest.queriesOf(args.tokens);
  auto *workspace = static_cast<std::byte *>(args.workspace);
  return {reinterpret_cast<const float *>(
              workspace + places[*module.manifest.lseBuffer].offset),
          queries, int64_t(queries) * options.q_heads, queries, 1.0f};
}

void kvc_plan::enqueue(const kvc_layer_args &given, Phase first, Phase last,
                       void *stream) const {
  kvc_layer_args args = given;
  kvc_cache_view cache = {}, into = {};
  openCache(args, cache);
  check(args, first, last);
  if (last == Phase::Compact)
    openInto(args, cache, into);
  if (first == Phase::Score && !args.prepared)
    first = Phase::Prepare;
  bool moves = movesKept && first <= Phase::Select && last == Phase::Compact;
  launch(args,
         argumentValues(args, options, lseOf(args), cache, into,
                        module.device->onHost(), moves),
         first, last, stream);
}

void kvc_plan::prepare(const kvc_layer_args &given, void *stream) const {
  if (!preparedBytes)
    return;
  kvc_layer_args args = given;
  args.batch = 1; // what all sequences share
  checkProjection(args);
  notNull(args.prepared, "prepared");
  checkPrepared(args);
  launch(args,
         argumentValues(args, options, {}, {}, {}, module.device->onHost(),
                        /*moves=*/false),
         Phase::Prepare, Phase::Prepare, stream);
}

void kvc_plan::launch(const kvc_layer_args &args, const ArgumentValues &values,
                      Phase first, Phase last, void *stream) const {
  Symbols sizes =
      symbols(args.batch, args.tokens, args.q_rows, args.index_capacity);
  bool moved = values[size_t(Argument::moves)];
  auto isNeeded = [&](const KernelSpec &kernel) {
    return first <= kernel.phase && kernel.phase <= last &&
           !(kernel.skippedWithLse && args.lse) && kernel.isFor(args.tokens) &&
           !(kernel.phase == Phase::Compact && moved);
  };
  auto gridOf = [&](const KernelSpec &kernel) {
    std::array<uint32_t, 3> grid;
    for (size_t axis = 0; axis < 3; ++axis) {
      uint64_t extent = kernel.grid[axis].evaluate(sizes);
      if (extent == 0 || extent > (axis ? 65535u : 0x7fffffffu))
        throw fail(KVC_EXCEEDS_LIMITS, "grid of {} must fit, got '{}' = {}",
                   kernel.name, kernel.grid[axis].text(), extent);
      grid[axis] = uint32_t(extent);
    }
    return grid;
  };
  // All or nothing: what does not fit is found before the first launch.
  for (const KernelSpec &kernel : variant->kernels) {
    if (!isNeeded(kernel))
      continue;
    gridOf(kernel);
    for (Slot slot : kernel.slots)
      if (!slot.scratch)
        checkArgument(Argument(slot.index), values[slot.index]);
  }
  auto scratch = [&](const Place &place) {
    bool apart = args.prepared && place.prepared;
    return reinterpret_cast<uint64_t>(apart ? args.prepared : args.workspace) +
           (apart ? *place.prepared : place.offset);
  };
  std::optional<Launch> front;
  for (size_t i = 0; i < variant->kernels.size(); ++i) {
    const KernelSpec &kernel = variant->kernels[i];
    if (!isNeeded(kernel))
      continue;
    std::array<uint64_t, KVC_MAX_KERNEL_ARGUMENTS> slots;
    for (size_t s = 0; s < kernel.slots.size(); ++s) {
      Slot slot = kernel.slots[s];
      slots[s] =
          slot.scratch ? scratch(places[slot.index]) : values[slot.index];
    }
    uint32_t number = firstKernel + uint32_t(i);
    Launch launch{.kernel = number,
                  .grid = gridOf(kernel),
                  .block = module.device->multipliesByWarpgroups(number)
                               ? kernel.warpgroupBlock
                               : kernel.block,
                  .args = {slots.data(), kernel.slots.size()},
                  .front = front ? &*front : nullptr,
                  .sharedBytes = kernel.sharedBytes};
    module.device->launch(launch, stream);
    front = launch.asFront();
  }
}
