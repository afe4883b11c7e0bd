//===- Evictor.cpp - a policy applied to layers that live on the host -----===//

#include "executor/eviction/Evictor.h"

#include "kvc/host.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <cstring>

using namespace kvc::rt;

kvc_target kvc::rt::chooseTarget(const std::string &name, uint64_t seed) {
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.seed = seed;
  if (name == "cuda" || (name.empty() && kvc_cuda_device_count() > 0))
    target.kind = KVC_CUDA;
  else if (name != "host" && !name.empty())
    throw fail(KVC_BAD_ARGUMENT, "target must be host or cuda, got '{}'", name);
  return target;
}

const char *kvc::rt::targetName(const kvc_target &target) {
  return target.kind == KVC_CUDA ? "cuda" : "host";
}

namespace {

/// Device memory of one call.
class Arena {
public:
  explicit Arena(Device &device) : device(device) {}
  ~Arena() {
    for (void *memory : owned)
      device.release(memory);
  }
  void *zeros(size_t bytes) {
    void *memory = device.allocate(bytes);
    owned.push_back(memory);
    device.clear(memory, bytes);
    return memory;
  }
  template <typename T> T *upload(const std::vector<T> &values) {
    void *memory = zeros(values.size() * sizeof(T));
    device.upload(memory, values.data(), values.size() * sizeof(T));
    return static_cast<T *>(memory);
  }
  template <typename T>
  std::vector<T> download(const void *memory, size_t count) {
    std::vector<T> values(count);
    device.download(values.data(), memory, count * sizeof(T));
    return values;
  }

private:
  Device &device;
  std::vector<void *> owned;
};

} // namespace

/// Sequence `s` of the tables.
static MemberTable downloadMembers(Arena &arena, const kvc_layer_args &args,
                                   size_t s, size_t heads) {
  MemberTable table;
  table.counts = arena.download<int32_t>(args.member_counts + s * heads, heads);
  auto append = [&](auto &to, auto *from, size_t head) {
    using T = std::remove_pointer_t<decltype(from)>;
    auto part =
        arena.download<T>(from + (s * heads + head) * args.member_capacity,
                          size_t(table.counts[head]));
    to.insert(to.end(), part.begin(), part.end());
  };
  for (size_t h = 0; h < heads; ++h) {
    append(table.rows, args.member_rows, h);
    append(table.positions, args.member_positions, h);
    append(table.norms, args.member_norms, h);
  }
  return table;
}

/// Device memory that lives from layer to layer.
struct Evictor::State {
  State(Device &device, size_t batch, uint32_t tokens)
      : arena(device), batch(batch), tokens(tokens),
        memory(static_cast<int32_t *>(
            arena.zeros(batch * tokens * sizeof(int32_t)))) {}
  Arena arena;
  const size_t batch;
  const uint32_t tokens;
  int32_t *const memory;
  uint32_t nextLayer = 0;
};

Evictor::Evictor(const std::string &library, const kvc_target &target) {
  kvc_enable_host();
  module = std::make_unique<kvc_module>(library, target);
}
Evictor::~Evictor() = default;

void Evictor::setTable(std::vector<float> importance) {
  table = std::move(importance);
}

void Evictor::plan(const kvc_plan_options &options) {
  state.reset();
  current = std::make_unique<kvc_plan>(*module, options);
}

KeptLayer Evictor::evict(const std::vector<LayerSequence> &batch, float scale,
                         bool scores, uint32_t layer, uint32_t layers) {
  const kvc_plan_options &options = current->options;
  Device &device = *module->device;
  Arena arena(device);
  size_t count = batch.size(), element = dtypeBytes(options.dtype);
  size_t heads = options.kv_heads, row = options.head_dim * element;
  uint32_t tokens = 0;
  bool lse = module->manifest.queries > 0;
  std::vector<int32_t> lengths, budgets;
  for (const LayerSequence &sequence : batch) {
    tokens = std::max(tokens, sequence.tokens);
    lengths.push_back(int32_t(sequence.tokens));
    budgets.push_back(int32_t(std::min<uint32_t>(sequence.budget, INT32_MAX)));
    lse &= sequence.lse != nullptr;
  }
  uint32_t queries = module->manifest.queries == KVC_ALL_QUERIES
                         ? tokens
                         : module->manifest.queries;
  uint32_t capacity = tokens; // a head never keeps more than all

  // Rows of a sequence are packed as [head][row], padded to the longest: the
  // cache behind its rows, queries in front, so that the last row is the last
  // query's.
  struct Packed {
    std::byte *memory;
    size_t headRows; // from one head to the next
  };
  auto pack = [&](size_t packedHeads, size_t rows, size_t rowBytes, bool atEnd,
                  auto pointer, auto have) -> Packed {
    if (const std::byte *from = pointer(batch[0]);
        count == 1 && device.onHost() && from && have(batch[0]) >= rows) {
      // Kernels only read it: no copy of what lies well as it is.
      size_t present = have(batch[0]);
      from += atEnd ? (present - rows) * rowBytes : 0;
      if (reinterpret_cast<uintptr_t>(from) % 16 == 0 &&
          present * rowBytes % 16 == 0)
        return {const_cast<std::byte *>(from), present};
    }
    auto *memory = static_cast<std::byte *>(
        arena.zeros(count * packedHeads * rows * rowBytes));
    for (size_t s = 0; s < count; ++s) {
      const std::byte *from = pointer(batch[s]);
      size_t present = have(batch[s]), used = std::min(present, rows);
      size_t first = atEnd ? rows - used : 0;
      for (size_t h = 0; from && h < packedHeads; ++h)
        device.upload(
            memory + ((s * packedHeads + h) * rows + first) * rowBytes,
            from + (h * present + present - used) * rowBytes, used * rowBytes);
    }
    return {memory, rows};
  };
  auto packCache = [&](const std::byte *LayerSequence::*member) {
    return pack(
        heads, tokens, row, false,
        [&](const LayerSequence &s) { return s.*member; },
        [](const LayerSequence &s) { return size_t(s.tokens); });
  };

  kvc_layer_args args = {};
  args.struct_size = sizeof args;
  args.batch = uint32_t(count);
  args.tokens = tokens;
  args.layer = layer;
  args.layers = layers;
  args.lengths = arena.upload(lengths);
  args.budgets = arena.upload(budgets);
  auto rows = [&](Packed packed, size_t rowHeads) {
    int64_t d = options.head_dim;
    return kvc_rows{packed.memory, int64_t(rowHeads * packed.headRows) * d,
                    int64_t(packed.headRows) * d, d};
  };
  args.k = rows(packCache(&LayerSequence::k), heads);
  args.v = rows(packCache(&LayerSequence::v), heads);
  if (queries) {
    auto have = [](const LayerSequence &s) { return size_t(s.queries); };
    args.q = rows(pack(
                      options.q_heads, queries, row, true,
                      [](const LayerSequence &s) { return s.q; }, have),
                  options.q_heads);
    args.q_rows = queries;
    if (lse) {
      Packed packed = pack(
          options.q_heads, queries, sizeof(float), true,
          [](const LayerSequence &s) {
            return reinterpret_cast<const std::byte *>(s.lse);
          },
          have);
      args.lse = reinterpret_cast<float *>(packed.memory);
      args.lse_rows = queries;
      args.lse_head_stride = int64_t(packed.headRows);
      args.lse_batch_stride = int64_t(packed.headRows) * options.q_heads;
    }
  }
  kvc_plan_info info = current->query();
  if (info.inputs & KVC_READS_WO) {
    // Nobody reads it where nothing is scored, but the plan wants to see one.
    args.hidden = 1;
    for (const LayerSequence &sequence : batch)
      args.hidden = std::max(args.hidden, sequence.hidden);
    size_t bytes = args.hidden * options.q_heads * row;
    auto *memory = static_cast<std::byte *>(arena.zeros(count * bytes));
    for (size_t s = 0; s < count; ++s)
      if (batch[s].wo)
        device.upload(memory + s * bytes, batch[s].wo, bytes);
    int64_t d = options.head_dim, width = d * options.q_heads;
    args.wo = {memory, width * args.hidden, d, width};
  }
  if (info.inputs & KVC_READS_RAW_KEYS)
    args.k_raw = rows(packCache(&LayerSequence::kRaw), heads);
  bool merges = info.inputs & KVC_MERGES;
  if (merges) {
    size_t bytes = count * heads * tokens * 4;
    args.member_capacity = tokens;
    args.member_rows = static_cast<int32_t *>(arena.zeros(bytes));
    args.member_positions = static_cast<int32_t *>(arena.zeros(bytes));
    args.member_norms = static_cast<float *>(arena.zeros(bytes));
    args.member_counts = static_cast<int32_t *>(arena.zeros(count * heads * 4));
  }
  if (info.inputs & KVC_READS_TABLE) {
    if (table.size() != size_t(layers) * options.q_heads)
      throw fail(KVC_BAD_ARGUMENT,
                 "policy '{}' reads a table of {} layers and {} query heads, "
                 "got {} entries",
                 module->manifest.policy, layers, options.q_heads,
                 table.size());
    args.table = arena.upload(table);
  }
  if (info.inputs & KVC_READS_STATE) {
    if (layer == 0)
      state = std::make_unique<State>(device, count, tokens);
    if (!state || state->nextLayer != layer || state->batch != count ||
        state->tokens != tokens)
      throw fail(KVC_BAD_ARGUMENT,
                 "policy '{}' carries state: layers must come in order, got {}",
                 module->manifest.policy, layer);
    ++state->nextLayer;
    args.state = state->memory;
    args.state_rows = tokens;
  }
  args.scale = scale;
  args.index_capacity = capacity;
  args.indices =
      static_cast<int32_t *>(arena.zeros(count * heads * capacity * 4));
  args.counts = static_cast<int32_t *>(arena.zeros(count * heads * 4));
  args.past = static_cast<int32_t *>(arena.zeros(count * 4));
  args.status = static_cast<int32_t *>(arena.zeros(4));
  args.offsets = static_cast<int32_t *>(arena.zeros(count * heads * 4));
  args.workspace = arena.zeros(info.workspace_bytes);
  args.workspace_bytes = info.workspace_bytes;
  // First the sizes, then a cache that is just as large.
  current->enqueue(args, Phase::Score, Phase::Select, nullptr);
  device.synchronize();
  auto counts = arena.download<int32_t>(args.counts, count * heads);
  size_t outRows = 1;
  for (size_t s = 0; s < count; ++s) {
    size_t sum = 0;
    for (size_t h = 0; h < heads; ++h)
      sum += size_t(counts[s * heads + h]);
    outRows = std::max(outRows, sum);
  }
  args.out_rows = uint32_t(outRows);
  args.k_out = arena.zeros(count * outRows * row);
  args.v_out = arena.zeros(count * outRows * row);
  current->enqueue(args, Phase::Compact, Phase::Compact, nullptr);
  device.synchronize();

  KeptLayer result;
  auto status = arena.download<int32_t>(args.status, 1)[0];
  if (status & KVC_DATA_CAPACITY)
    throw fail(KVC_INTERNAL_ERROR, "a head kept more rows than it has tokens");
  result.nanScores = status & KVC_DATA_NAN;
  auto past = arena.download<int32_t>(args.past, count);
  for (size_t s = 0; s < count; ++s) {
    KeptSequence kept;
    kept.counts.assign(counts.begin() + s * heads,
                       counts.begin() + (s + 1) * heads);
    size_t sum = 0;
    for (size_t h = 0; h < heads; ++h) {
      auto list = arena.download<int32_t>(
          args.indices + (s * heads + h) * capacity, size_t(kept.counts[h]));
      kept.indices.insert(kept.indices.end(), list.begin(), list.end());
      sum += list.size();
    }
    auto cache = [&](void *out) {
      return arena.download<std::byte>(
          static_cast<std::byte *>(out) + s * outRows * row, sum * row);
    };
    kept.k = cache(args.k_out);
    kept.v = cache(args.v_out);
    kept.past = uint32_t(past[s]);
    if (merges)
      kept.members = downloadMembers(arena, args, s, heads);
    if (scores && info.scores_offset >= 0 && kept.past)
      for (size_t h = 0; h < heads; ++h) {
        size_t from =
            s * info.scores_heads + std::min<size_t>(h, info.scores_heads - 1);
        auto line = arena.download<float>(
            static_cast<std::byte *>(args.workspace) + info.scores_offset +
                from * tokens * sizeof(float),
            kept.past);
        kept.scores.insert(kept.scores.end(), line.begin(), line.end());
      }
    result.sequences.push_back(std::move(kept));
  }
  return result;
}
