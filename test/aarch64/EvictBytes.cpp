//===- EvictBytes.cpp - what a policy keeps, in one line to compare -------===//
//
//   evict_bytes LIBRARY f32|f16|bf16
//
// Runs the host kernels of a library for head size 64 and groups of 2 on numbers that are
// the same everywhere, by warps and by threads, and prints what was kept: how many rows,
// and a checksum of their tokens, keys and values. tools/aarch64 builds it for two kinds of
// processor and compares.
//
//===----------------------------------------------------------------------===//

#include "kvc/host.h"
#include "kvc/kvc.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr uint32_t tokens = 300, heads = 2, group = 2, dim = 64, hidden = 48;

[[noreturn]] void fail(const char *what) {
  char text[512];
  kvc_last_error(text, sizeof text);
  std::printf("%s: %s\n", what, text);
  std::exit(1);
}

/// FNV-1a.
uint64_t mixed(uint64_t sum, const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    sum = (sum ^ static_cast<const uint8_t *>(data)[i]) * 0x100000001b3;
  return sum;
}

/// Multiples of 1/64 from -2 up to 2, which every type has.
class Numbers {
public:
  explicit Numbers(kvc_dtype dtype) : dtype(dtype) {}

  std::vector<uint32_t> tensor(size_t count) {
    std::vector<uint32_t> words(count);
    auto *halves = reinterpret_cast<uint16_t *>(words.data());
    for (size_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      float x = float(int(state >> 56) - 128) / 64;
      uint32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      if (dtype == KVC_F32)
        words[i] = bits;
      else if (dtype == KVC_BF16)
        halves[i] = uint16_t(bits >> 16);
      else // f16: of normal numbers and 0
        halves[i] = uint16_t(x == 0 ? 0
                                    : (bits >> 16 & 0x8000) |
                                          ((bits >> 13 & 0x3ffff) - (112 << 10)));
    }
    return words;
  }

private:
  kvc_dtype dtype;
  uint64_t state = 7;
};

void run(const char *library, kvc_dtype dtype, uint64_t seed) {
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = KVC_HOST;
  target.seed = seed;
  kvc_module *module;
  if (kvc_module_load(library, &target, &module))
    fail("load");
  kvc_plan_options options = {};
  options.struct_size = sizeof options;
  options.head_dim = dim;
  options.q_heads = heads * group;
  options.kv_heads = heads;
  options.dtype = dtype;
  options.max_batch = 1;
  options.max_tokens = tokens;
  kvc_plan *plan;
  if (kvc_plan_create(module, &options, &plan))
    fail("plan");
  kvc_plan_info info = {};
  info.struct_size = sizeof info;
  kvc_plan_query(plan, &info);

  uint32_t queries = info.queries == KVC_ALL_QUERIES ? tokens
                     : info.queries                  ? info.queries
                                                     : 1;
  Numbers numbers(dtype);
  auto q = numbers.tensor(heads * group * queries * dim);
  auto k = numbers.tensor(heads * tokens * dim), v = k, raw = k;
  v = numbers.tensor(v.size());
  raw = numbers.tensor(raw.size());
  auto wo = numbers.tensor(hidden * heads * group * dim);
  std::vector<float> table(heads * group), norms(heads * tokens);
  for (uint32_t h = 0; h < table.size(); ++h)
    table[h] = float(h + 1);
  void *workspace =
      std::aligned_alloc(256, (info.workspace_bytes / 256 + 1) * 256);
  int32_t length = tokens, budget = 100, past = 0, status = 0;
  int32_t counts[heads], offsets[heads], members[heads];
  std::vector<int32_t> indices(heads * tokens), memberRows(heads * tokens),
      memberPositions(heads * tokens), state(tokens);
  std::vector<uint32_t> keys(heads * tokens * dim), values(keys.size());

  auto rows = [](const std::vector<uint32_t> &memory, int64_t each) {
    return kvc_rows{memory.data(), int64_t(heads) * each * dim, each * dim,
                    dim};
  };
  kvc_layer_args args = {};
  args.struct_size = sizeof args;
  args.layers = args.batch = 1;
  args.tokens = tokens;
  args.scale = 0.125f;
  args.lengths = &length;
  args.budgets = &budget;
  args.q = {q.data(), int64_t(heads * group) * queries * dim,
            int64_t(queries) * dim, dim};
  args.q_rows = queries;
  args.k = rows(k, tokens);
  args.v = rows(v, tokens);
  args.k_raw = rows(raw, tokens);
  args.wo = {wo.data(), int64_t(hidden) * heads * group * dim, dim,
             int64_t(heads) * group * dim};
  args.hidden = hidden;
  args.table = table.data();
  args.state = state.data();
  args.state_rows = tokens;
  args.workspace = workspace;
  args.workspace_bytes = info.workspace_bytes;
  args.indices = indices.data();
  args.index_capacity = args.member_capacity = tokens;
  args.counts = counts;
  args.past = &past;
  args.status = &status;
  args.offsets = offsets;
  args.k_out = keys.data();
  args.v_out = values.data();
  args.out_rows = heads * tokens;
  args.member_rows = memberRows.data();
  args.member_positions = memberPositions.data();
  args.member_norms = norms.data();
  args.member_counts = members;
  if (kvc_layer_evict(plan, &args, nullptr))
    fail("evict");

  uint64_t sum = 0xcbf29ce484222325;
  size_t kept = 0;
  for (uint32_t h = 0; h < heads; ++h) {
    sum = mixed(sum, &indices[h * tokens], size_t(counts[h]) * sizeof(int32_t));
    kept += size_t(counts[h]);
  }
  size_t bytes = kept * dim * (dtype == KVC_F32 ? 4 : 2);
  sum = mixed(mixed(sum, keys.data(), bytes), values.data(), bytes);
  std::printf("by %s: %zu rows, status %d, %016llx\n",
              seed ? "threads" : "warps", kept, status,
              static_cast<unsigned long long>(sum));
  std::free(workspace);
  kvc_plan_destroy(plan);
  kvc_module_close(module);
}

} // namespace

int main(int count, char **words) {
  std::string type = count == 3 ? words[2] : "";
  if (type != "f32" && type != "f16" && type != "bf16") {
    std::fprintf(stderr, "usage: evict_bytes LIBRARY f32|f16|bf16\n");
    return 2;
  }
  kvc_enable_host();
  for (uint64_t seed : {0, 5})
    run(words[1],
        type == "f32"   ? KVC_F32
        : type == "f16" ? KVC_F16
                        : KVC_BF16,
        seed);
}
