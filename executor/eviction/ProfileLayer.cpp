//===- ProfileLayer.cpp - kvc-run profile ---------------------------------===//

#include "executor/eviction/ProfileLayer.h"

#include "executor/eviction/Arena.h"
#include "executor/eviction/Budget.h"
#include "executor/eviction/LaunchNumbers.h"
#include "executor/eviction/RandomMemory.h"
#include "executor/io/Safetensors.h"
#include "kvc/ptx.h"
#include "ptx/PTXDevice.h"
#include "ptx/profile/Report.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "runtime/plan/Plan.h"

#include "runtime/base/Format.h"
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>

using namespace kvc::rt;
using nlohmann::ordered_json;

namespace {

/// One sequence's layer in device memory: queries, keys and values are normally
/// distributed, so the log-sum-exp is what it is for such.
class RandomLayer {
public:
  RandomLayer(const kvc_plan &plan, const ProfileOptions &options,
              uint32_t tokens, uint32_t budget)
      : info(plan.query()), heads(plan.options.kv_heads),
        queryHeads(plan.options.q_heads), headDim(plan.options.head_dim),
        dtype(plan.options.dtype), arena(*plan.module.device) {
    args.struct_size = sizeof args;
    args.batch = 1;
    args.tokens = tokens;
    args.layers = 1;
    int32_t *length = arena.upload(std::vector<int32_t>{int32_t(tokens)});
    args.budgets = arena.upload(std::vector<int32_t>{int32_t(budget)});
    if (plan.options.cache) {
      setView(plan.options.cache, options.page);
      cache.lengths = length;
    } else {
      args.lengths = length;
      args.k = rows(heads, tokens);
      args.v = rows(heads, tokens);
    }
    if (info.inputs & KVC_READS_RAW_KEYS)
      args.k_raw = rows(heads, tokens);
    args.q_rows = std::min(info.queries, tokens); // KVC_ALL_QUERIES: T
    if (args.q_rows)
      args.q = rows(queryHeads, args.q_rows, options.spread);
    if (options.lse && args.q_rows)
      setLogSumExp(options.spread);
    if (info.inputs & KVC_READS_WO) {
      args.hidden = options.hidden;
      int64_t width = int64_t(queryHeads) * headDim;
      args.wo = {random(uint64_t(width) * args.hidden), width * args.hidden,
                 int64_t(headDim), width};
    }
    if (info.inputs & KVC_READS_TABLE)
      args.table = arena.upload(std::vector<float>(queryHeads, 1.0f));
    if (info.inputs & KVC_READS_STATE) {
      args.state = arena.zeros<int32_t>(tokens);
      args.state_rows = tokens;
    }
    setOutputs(budget);
    if (plan.options.into)
      setInto(plan.options);
  }

  kvc_layer_args args = {};

private:
  kvc_plan_info info;
  uint32_t heads, queryHeads, headDim;
  kvc_dtype dtype;
  Arena arena;
  kvc_cache_view cache = {}, into = {};

  /// All tokens, head after head; or all heads of a token beside each other, in pages in
  /// no order.
  void setView(kvc_cache_kind kind, uint32_t pageRows) {
    auto tokens = int64_t(args.tokens), d = int64_t(headDim);
    auto all = int64_t(heads);
    cache.struct_size = sizeof cache;
    cache.kind = kind;
    cache.dtype = dtype;
    cache.batch = 1;
    cache.kv_heads = heads;
    cache.head_dim = headDim;
    cache.counts = {arena.upload(std::vector<int32_t>(heads, int32_t(tokens))),
                    all, 1};
    if (kind == KVC_PAGED) {
      int64_t pages = (tokens + pageRows - 1) / pageRows;
      std::vector<int32_t> table = shuffledPages(uint32_t(pages));
      for (kvc_plane *side : {&cache.k, &cache.v})
        *side = {random(uint64_t(pages * pageRows * d * all)), 0, d, d * all,
                 d * all * pageRows};
      cache.table = {arena.upload(table), pages, 0};
      cache.table_entries = cache.pages = uint32_t(pages);
      cache.page_rows = pageRows;
    } else {
      std::vector<int32_t> offsets;
      for (int64_t head = 0; head < all; ++head)
        offsets.push_back(int32_t(head * tokens));
      for (kvc_plane *side : {&cache.k, &cache.v})
        *side = {random(uint64_t(tokens * d * all)), 0, 0, d, 0};
      cache.offsets = {arena.upload(offsets), all, 1};
      cache.slots = uint32_t(tokens * all);
    }
    args.cache = &cache;
  }

  /// In place.
  void setInto(const kvc_plan_options &options) {
    if (options.cache != options.into)
      throw fail(KVC_UNSUPPORTED,
                 "profile needs a variant whose into= is its cache= or packed");
    into = cache;
    int64_t tokens = args.tokens;
    into.positions = {fresh<int32_t>(uint64_t(heads) * args.tokens),
                      int64_t(heads) * tokens, tokens, 1, 0};
    args.into = &into;
    args.k_out = args.v_out = nullptr;
    args.positions_out = nullptr;
  }

  /// Not cleared: the profiler must see what nobody writes.
  template <typename T> T *fresh(uint64_t count) {
    return arena.fresh<T>(count);
  }

  void *random(uint64_t count, float deviation = 1) {
    return randomRows(arena, count / headDim, headDim, dtype, deviation);
  }

  kvc_rows rows(uint32_t count, uint32_t tokens, float deviation = 1) {
    int64_t d = headDim;
    return {random(uint64_t(count) * tokens * headDim, deviation),
            d * tokens * count, d * tokens, d};
  }

  void setLogSumExp(float deviation) {
    std::vector<float> lse;
    for (uint32_t head = 0; head < queryHeads; ++head)
      for (uint32_t row = 0; row < args.q_rows; ++row)
        // Of normally distributed logits.
        lse.push_back(0.5f * deviation * deviation +
                      std::log(float(args.tokens - args.q_rows + row + 1)));
    args.lse = arena.upload(lse);
    args.lse_rows = args.q_rows;
    args.lse_head_stride = args.q_rows;
    args.lse_batch_stride = int64_t(args.q_rows) * queryHeads;
  }

  void setOutputs(uint32_t budget) {
    uint64_t capacity =
        std::min<uint64_t>(args.tokens, uint64_t(budget) * heads);
    args.index_capacity = uint32_t(capacity);
    args.indices = fresh<int32_t>(heads * capacity);
    args.counts = fresh<int32_t>(heads);
    args.past = fresh<int32_t>(heads);
    args.status = arena.zeros<int32_t>(1);
    args.offsets = fresh<int32_t>(heads);
    if (info.inputs & KVC_MERGES) {
      args.member_capacity = args.tokens;
      args.member_rows = fresh<int32_t>(uint64_t(heads) * args.tokens);
      args.member_positions = fresh<int32_t>(uint64_t(heads) * args.tokens);
      args.member_norms = fresh<float>(uint64_t(heads) * args.tokens);
      args.member_counts = fresh<int32_t>(heads);
    }
    args.workspace = fresh<std::byte>(info.workspace_bytes);
    args.workspace_bytes = info.workspace_bytes;
    args.out_rows = uint32_t(std::min<uint64_t>(uint64_t(heads) * args.tokens,
                                                uint64_t(heads) * budget));
    uint64_t bytes = uint64_t(args.out_rows) * headDim * dtypeBytes(dtype);
    args.k_out = fresh<std::byte>(bytes);
    args.v_out = fresh<std::byte>(bytes);
    if (args.cache)
      args.positions_out = fresh<int32_t>(args.out_rows);
  }
};

} // namespace

void kvc::rt::profile(const ProfileOptions &options) {
  Budget budget = Budget::parse(options.budget, options.keep);
  if (!options.json.empty())
    checkWritable({options.json});
  kvc_enable_ptx();
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = KVC_PTX;
  kvc_module module(options.policy, target);
  const Variant &variant = module.manifest.variants.front();
  ordered_json profiles = ordered_json::array();
  for (uint32_t tokens : options.tokens) {
    auto profiler =
        ptx::watchLaunches(*module.device, options.card, options.blocks);
    for (const KernelSpec &kernel : variant.kernels)
      // What these make others select by; and the work on lists is the first
      // blocks'.
      if (kernel.kind == "spans" || kernel.kind == "gram" ||
          kernel.kind == "norms")
        profiler->runWhole(kernel.name);
    kvc_plan_options limits = {};
    limits.struct_size = sizeof limits;
    limits.head_dim = variant.headDim;
    limits.kv_heads = options.kvHeads;
    limits.q_heads = options.kvHeads * variant.group;
    limits.dtype = variant.dtype;
    limits.max_batch = 1;
    limits.max_tokens = tokens;
    limits.lse_given = options.lse;
    limits.cache = variant.cache;
    limits.into = variant.into;
    kvc_plan plan(module, limits);
    uint32_t kept = budget.of(tokens);
    RandomLayer layer(plan, options, tokens, kept);
    plan.enqueue(layer.args, Phase::Score, Phase::Compact, nullptr);
    std::cout << formatted(
                     "{}: {} tokens, {} kept a head, {} KV heads, {} query "
                     "heads, head size {}, {}\n",
                     module.manifest.policy, tokens, kept, limits.kv_heads,
                     limits.q_heads, limits.head_dim, dtypeName(limits.dtype))
              << ptx::report(*profiler);
    ordered_json launches = ordered_json::array();
    for (const ptx::LaunchProfile &launch : profiler->launches())
      launches.push_back(describeLaunch(launch, profiler->card()));
    profiles.push_back({{"policy", module.manifest.policy},
                        {"card", options.card},
                        {"tokens", tokens},
                        {"budget", kept},
                        {"kv_heads", limits.kv_heads},
                        {"q_heads", limits.q_heads},
                        {"head_dim", limits.head_dim},
                        {"dtype", dtypeName(limits.dtype)},
                        {"lse_given", options.lse},
                        {"launches", launches}});
  }
  if (!options.json.empty())
    writeFiles({{options.json, profiles.dump(1) + "\n"}});
}
