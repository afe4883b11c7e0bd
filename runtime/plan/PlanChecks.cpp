//===- PlanChecks.cpp - what a call must bring ----------------------------===//

#include "runtime/plan/Plan.h"

#include "runtime/base/Boundary.h"
#include "runtime/base/DType.h"
#include "runtime/cache/CacheView.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace kvc::rt;

uint64_t kvc_plan::rowAlignment() const {
  if (variant->hostAlignment && module.device->onHost())
    return variant->hostAlignment;
  return variant->vector * dtypeBytes(variant->dtype);
}

void kvc_plan::checkAligned(const void *base, const char *name) const {
  aligned(base, rowAlignment(), name);
}

void kvc_plan::checkWords(const kvc_layer_args &args) const {
  for (auto [data, name] :
       std::initializer_list<std::pair<const void *, const char *>>{
           {args.lengths, "lengths"},
           {args.budgets, "budgets"},
           {args.new_queries, "new_queries"},
           {args.lse, "lse"},
           {args.table, "table"},
           {args.state, "state"},
           {args.indices, "indices"},
           {args.counts, "counts"},
           {args.past, "past"},
           {args.status, "status"},
           {args.offsets, "offsets"},
           {args.positions_out, "positions_out"},
           {args.member_rows, "member_rows"},
           {args.member_positions, "member_positions"},
           {args.member_norms, "member_norms"},
           {args.member_counts, "member_counts"},
           {args.freed_pages, "freed_pages"},
           {args.row_states.data, "row_states"},
           {args.row_states_out, "row_states_out"},
           {args.into_states.data, "into_states"},
           {args.rope, "rope"},
           {args.since, "since"}})
    aligned(data, sizeof(int32_t), name);
}

void kvc_plan::checkStride(int64_t stride, const char *name) const {
  if (stride % int64_t(variant->vector))
    throw fail(KVC_MISALIGNED,
               "strides of {} must be multiples of {} elements, got {}", name,
               variant->vector, stride);
}

void kvc_plan::openCache(kvc_layer_args &args, kvc_cache_view &cache) const {
  if (!options.cache) {
    absent(args.cache, "cache", "the plan is for a dense prompt");
    return;
  }
  CacheView view(args.cache);
  cache = view.fields();
  checkCache(args, view);
  args.k = {cache.k.data, cache.k.batch_stride, cache.k.head_stride,
            cache.k.row_stride};
  args.v = {cache.v.data, cache.v.batch_stride, cache.v.head_stride,
            cache.v.row_stride};
  args.lengths = cache.lengths;
}

void kvc_plan::checkView(const CacheView &view, kvc_cache_kind planned,
                         uint32_t batch) const {
  const kvc_cache_view &fields = view.fields();
  auto equal = [&](uint64_t value, uint64_t expected, const char *field) {
    if (value != expected)
      throw fail(KVC_BAD_ARGUMENT, "{}.{} must be the call's ({}), got {}",
                 view.title(), field, expected, value);
  };
  // Dense slots are ragged ones whose heads have memory of their own.
  bool paged = plansPages(planned);
  if ((fields.kind == KVC_PAGED) != paged)
    throw fail(KVC_BAD_ARGUMENT,
               "{}.kind must be {}, as the plan has it, got {}", view.title(),
               paged ? "2 (paged)" : "0 (dense) or 1 (ragged)",
               int(fields.kind));
  equal(fields.dtype, options.dtype, "dtype");
  equal(fields.batch, batch, "batch");
  equal(fields.kv_heads, options.kv_heads, "kv_heads");
  equal(fields.head_dim, options.head_dim, "head_dim");
}

void kvc_plan::checkCache(const kvc_layer_args &args,
                          const CacheView &view) const {
  const kvc_cache_view &cache = view.fields();
  checkView(view, options.cache, args.batch);
  notNull(cache.lengths, "cache.lengths");
  if (view.members() && !plansMembers(options.cache))
    throw fail(KVC_BAD_ARGUMENT, "cache.members must be null: the plan is for "
                                 "rows that are not merged");
  if (!view.members() && plansMembers(options.cache))
    throw fail(KVC_BAD_ARGUMENT,
               "cache.members must not be null: the plan is for merged rows");
  if (args.k.data || args.v.data || args.lengths)
    throw fail(KVC_BAD_ARGUMENT,
               "k, v and lengths must be null where a cache is given");
  for (auto [ours, theirs, name] :
       {std::tuple{args.counts, cache.counts.data, "counts"},
        {args.offsets, cache.offsets.data, "offsets"},
        {args.indices, static_cast<int32_t *>(cache.positions.data), "indices"},
        {args.positions_out, static_cast<int32_t *>(cache.positions.data),
         "positions_out"}})
    if (ours && ours == theirs)
      throw fail(KVC_BAD_ARGUMENT,
                 "{} must not be the cache's, which kernels read to the end",
                 name);
  checkStride(cache.k.page_stride, "cache.k");
  checkStride(cache.v.page_stride, "cache.v");
  if (view.members())
    checkMembers(args, view);
  if (!module.device->onHost())
    return;
  view.checkRows();
  if (view.members())
    view.checkMemberOrder(inputs & KVC_READS_ANGLES ? args.rope_positions
                                                    : UINT32_MAX);
}

void kvc_plan::checkSequences(const kvc_layer_args &args) const {
  if (!module.device->onHost())
    return;
  for (uint32_t s = 0; s < args.batch; ++s) {
    if (args.lengths[s] < 1 || uint32_t(args.lengths[s]) > args.tokens)
      throw fail(KVC_EXCEEDS_LIMITS,
                 "sequence {}: the length must be 1 to {} (tokens), got {}", s,
                 args.tokens, args.lengths[s]);
    if (args.budgets[s] < 1)
      throw fail(KVC_EXCEEDS_LIMITS,
                 "sequence {}: the budget must be at least 1, got {}", s,
                 args.budgets[s]);
  }
}

void kvc_plan::checkIndices(const kvc_layer_args &args) const {
  if (!module.device->onHost())
    return;
  std::optional<CacheView> cache;
  if (options.cache)
    cache.emplace(args.cache);
  uint32_t heads = args.batch * options.kv_heads;
  for (uint32_t head = 0; head < heads; ++head) {
    uint32_t s = head / options.kv_heads, g = head % options.kv_heads;
    const int32_t *kept = args.indices + size_t(head) * args.index_capacity;
    int32_t end = cache ? cache->count(s, g) : args.lengths[s], before = -1;
    if (args.counts[head] < 0)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}, head {}: counts must be 0 or more, got {}", s, g,
                 args.counts[head]);
    // What finds no place in the list is counted all the same.
    int64_t count = std::min<int64_t>(args.counts[head], args.index_capacity);
    for (int64_t i = 0; i < count; before = kept[i++])
      if (kept[i] <= before || kept[i] >= end)
        throw fail(KVC_BAD_ARGUMENT,
                   "sequence {}, head {}: indices must ascend below {} ({}), "
                   "got {}",
                   s, g, cache ? "the head's rows" : "T", end,
                   inOrder(kept[i], before));
  }
}

void kvc_plan::checkMembers(const kvc_layer_args &args,
                            const CacheView &view) const {
  const kvc_member_table &table = *view.members();
  if (inputs & KVC_READS_ANGLES) {
    notNull(args.rope, "rope");
    if (!args.rope_positions)
      throw fail(KVC_BAD_ARGUMENT, "rope_positions must be 1 or more, got 0");
  }
  auto apart = [](const void *ours, const void *theirs, const char *name) {
    if (ours && ours == theirs)
      throw fail(KVC_BAD_ARGUMENT,
                 "{} must not be the cache's, which kernels read to the end",
                 name);
  };
  apart(args.member_rows, table.rows, "member_rows");
  apart(args.member_positions, table.positions, "member_positions");
  apart(args.member_norms, table.norms, "member_norms");
  apart(args.member_counts, table.counts, "member_counts");
}

void kvc_plan::checkUpToLength(const kvc_layer_args &args,
                               const int32_t *numbers, const char *name) const {
  if (!numbers || !module.device->onHost())
    return;
  for (uint32_t s = 0; s < args.batch; ++s)
    if (numbers[s] < 0 || numbers[s] > args.lengths[s])
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}: {} must be 0 to T ({}), got {}", s, name,
                 args.lengths[s], numbers[s]);
}

void kvc_plan::check(const kvc_layer_args &args, Phase first,
                     Phase last) const {
  auto atMost = [](uint64_t value, uint64_t most, const char *name,
                   const char *limit) {
    if (value == 0 || value > most)
      throw fail(KVC_EXCEEDS_LIMITS, "{} must be 1 to {} ({}), got {}", name,
                 most, limit, value);
  };
  atMost(args.batch, options.max_batch, "batch", "the plan's max_batch");
  atMost(args.tokens, options.max_tokens, "tokens", "the plan's max_tokens");
  if (args.layer >= args.layers)
    throw fail(KVC_BAD_ARGUMENT, "layer must be below layers ({}), got {}",
               args.layers, args.layer);
  notNull(args.lengths, "lengths");
  notNull(args.budgets, "budgets");
  checkWords(args);
  checkSequences(args);
  if (variant->reads(Argument::since))
    checkUpToLength(args, args.since, "since");
  checkRows(args.k, "k");
  for (size_t phase = size_t(first); phase <= size_t(last); ++phase)
    if (readsValues[phase])
      checkRows(args.v, "v");
  // Merging reads what scoring and selection left in the workspace.
  if ((first <= Phase::Select || (inputs & KVC_MERGES)) && workspaceBytes) {
    notNull(args.workspace, "workspace");
    if (args.workspace_bytes < workspaceBytes)
      throw fail(KVC_WORKSPACE_TOO_SMALL,
                 "workspace must have {} bytes, got {}", workspaceBytes,
                 args.workspace_bytes);
    aligned(args.workspace, alignment, "workspace");
  }
  if (first == Phase::Score && module.manifest.queries) {
    checkRows(args.q, "q");
    if (inputs & KVC_READS_NEW_QUERIES)
      checkUpToLength(args, args.new_queries, "new_queries");
    uint32_t queries = queriesOf(args);
    if (args.q_rows < queries)
      throw fail(KVC_BAD_ARGUMENT,
                 "policy '{}' reads the last {} queries, got q_rows {}",
                 module.manifest.policy, queries, args.q_rows);
    if (!args.q_rows)
      throw fail(KVC_BAD_ARGUMENT, "q_rows must be at least 1, got 0");
    if (options.lse_given)
      notNull(args.lse, "lse");
    if (args.lse && args.lse_rows < queries)
      throw fail(
          KVC_BAD_ARGUMENT,
          "policy '{}' reads the log-sum-exp of the last {} queries, got "
          "lse_rows {}",
          module.manifest.policy, queries, args.lse_rows);
    if (!std::isfinite(args.scale))
      throw fail(KVC_BAD_ARGUMENT, "scale must be finite, got {}", args.scale);
  }
  if (first <= Phase::Select && (inputs & KVC_READS_WO)) {
    checkProjection(args);
    if (args.prepared && preparedBytes)
      checkPrepared(args);
  }
  if (first <= Phase::Select && (inputs & KVC_READS_TABLE)) {
    notNull(args.table, "table");
    // Within these, products of the exact shares fit 128 bits.
    if (uint64_t(args.layers) * options.kv_heads > 1 << 14 ||
        args.tokens >= 1 << 21)
      throw fail(KVC_EXCEEDS_LIMITS,
                 "with a table, layers * kv_heads must be at most 2^14 and "
                 "tokens below 2^21, got {} * {} and {}",
                 args.layers, options.kv_heads, args.tokens);
  }
  if (first <= Phase::Select && (inputs & KVC_READS_STATE)) {
    notNull(args.state, "state");
    if (args.state_rows < args.tokens || args.layers >= 1 << 15)
      throw fail(KVC_EXCEEDS_LIMITS,
                 "state_rows must be at least tokens ({}) and layers below "
                 "2^15, got {} and {}",
                 args.tokens, args.state_rows, args.layers);
  }
  if (inputs & KVC_READS_RAW_KEYS)
    checkRows(args.k_raw, "k_raw");
  if (last >= Phase::Select && (inputs & KVC_MERGES)) {
    notNull(args.member_rows, "member_rows");
    notNull(args.member_positions, "member_positions");
    notNull(args.member_norms, "member_norms");
    notNull(args.member_counts, "member_counts");
    if (!args.member_capacity)
      throw fail(KVC_BAD_ARGUMENT, "member_capacity must be at least 1, got 0");
  }
  if (last >= Phase::Select) {
    notNull(args.indices, "indices");
    notNull(args.counts, "counts");
    if (!args.index_capacity)
      throw fail(KVC_BAD_ARGUMENT, "index_capacity must be at least 1, got 0");
  }
  if (first <= Phase::Select && last >= Phase::Select) {
    notNull(args.past, "past");
    notNull(args.status, "status");
  }
  if (first == Phase::Compact)
    checkIndices(args);
  if (last == Phase::Compact) {
    notNull(args.offsets, "offsets");
    if (!options.into)
      checkPacked(args);
  }
}

void kvc_plan::checkRows(const kvc_rows &rows, const char *name) const {
  notNull(rows.data, name);
  checkAligned(rows.data, name);
  for (int64_t stride : {rows.batch_stride, rows.head_stride, rows.row_stride})
    checkStride(stride, name);
}

void kvc_plan::checkProjection(const kvc_layer_args &args) const {
  checkRows(args.wo, "wo");
  if (!args.hidden)
    throw fail(KVC_BAD_ARGUMENT, "hidden must be at least 1, got 0");
}

void kvc_plan::checkPrepared(const kvc_layer_args &args) const {
  if (args.prepared_bytes < preparedBytes)
    throw fail(KVC_WORKSPACE_TOO_SMALL, "prepared must have {} bytes, got {}",
               preparedBytes, args.prepared_bytes);
  aligned(args.prepared, preparedAlignment, "prepared");
  if (args.batch > 1 && args.wo.batch_stride)
    throw fail(KVC_BAD_ARGUMENT,
               "wo.batch_stride must be 0 where prepared is given, which is of "
               "one projection, got {}",
               args.wo.batch_stride);
}

void kvc_plan::checkPacked(const kvc_layer_args &args) const {
  constexpr const char *why = "the plan is for packed rows";
  absent(args.into, "into", why);
  absent(args.into_states.data, "into_states.data", why);
  absent(args.freed_pages, "freed_pages", why);
  zero(args.pack_to_tail, "pack_to_tail", why);
  notNull(args.k_out, "k_out");
  notNull(args.v_out, "v_out");
  checkAligned(args.k_out, "k_out");
  checkAligned(args.v_out, "v_out");
  for (auto [out, in, name] : {std::tuple{args.k_out, args.k.data, "k"},
                               {args.v_out, args.v.data, "v"}})
    if (out == in)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}_out must not be {}'s memory, which is read while rows are "
                 "written",
                 name, name);
  if (options.cache)
    notNull(args.positions_out, "positions_out");
}
