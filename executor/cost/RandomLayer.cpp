//===- RandomLayer.cpp ----------------------------------------------------===//

#include "executor/cost/RandomLayer.h"

#include "executor/cost/RandomMemory.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <cmath>

using namespace kvc::rt;

kvc_plan_options kvc::rt::limitsOf(const kvc_module &module,
                                   const LayerOptions &options,
                                   uint32_t tokens) {
  const Variant &variant = module.manifest.variants.front();
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
  return limits;
}

RandomLayer::RandomLayer(const kvc_plan &plan, const LayerOptions &options,
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
  else
    setPacked(budget);
}

std::vector<int32_t> RandomLayer::kept() const {
  std::vector<int32_t> all = arena.download(args.counts, heads);
  for (uint32_t h = 0; h < heads; ++h) {
    size_t count = size_t(std::min<int64_t>(all[h], args.index_capacity));
    std::vector<int32_t> own =
        arena.download(args.indices + size_t(h) * args.index_capacity, count);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void RandomLayer::setView(kvc_cache_kind kind, uint32_t pageRows) {
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

void RandomLayer::setInto(const kvc_plan_options &options) {
  if (options.cache != options.into)
    throw fail(KVC_UNSUPPORTED,
               "profile needs a variant whose into= is its cache= or packed");
  into = cache;
  int64_t tokens = args.tokens;
  into.positions = {fresh<int32_t>(uint64_t(heads) * args.tokens),
                    int64_t(heads) * tokens, tokens, 1, 0};
  args.into = &into;
}

void *RandomLayer::random(uint64_t count, float deviation) {
  return randomRows(arena, count / headDim, headDim, dtype, deviation);
}

kvc_rows RandomLayer::rows(uint32_t count, uint32_t tokens, float deviation) {
  int64_t d = headDim;
  return {random(uint64_t(count) * tokens * headDim, deviation),
          d * tokens * count, d * tokens, d};
}

void RandomLayer::setLogSumExp(float deviation) {
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

void RandomLayer::setOutputs(uint32_t budget) {
  uint64_t capacity = std::min<uint64_t>(args.tokens, uint64_t(budget) * heads);
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
  if (info.prepared_bytes) {
    args.prepared = fresh<std::byte>(info.prepared_bytes);
    args.prepared_bytes = info.prepared_bytes;
  }
}

void RandomLayer::setPacked(uint32_t budget) {
  args.out_rows = uint32_t(std::min<uint64_t>(uint64_t(heads) * args.tokens,
                                              uint64_t(heads) * budget));
  uint64_t bytes = uint64_t(args.out_rows) * headDim * dtypeBytes(dtype);
  args.k_out = fresh<std::byte>(bytes);
  args.v_out = fresh<std::byte>(bytes);
  if (args.cache)
    args.positions_out = fresh<int32_t>(args.out_rows);
}
