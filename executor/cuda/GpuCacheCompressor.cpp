//===- GpuCacheCompressor.cpp - a policy over caches on a GPU -------------===//

#include "executor/cuda/GpuCacheCompressor.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;

GpuCacheCompressor::GpuCacheCompressor(const rt::PolicyOptions &options,
                                       Queue &queue, const rt::Config &config,
                                       const GpuWeights &weights,
                                       RopeTable &rope)
    : queue(queue), config(config), policy(options, queue, config, weights),
      rope(rope) {
  begin(1, 1, 1, 0); // says now if the policy is not compiled for such caches
  checkInputs();
}

void GpuCacheCompressor::begin(uint32_t length, uint32_t budget,
                               uint32_t newTokens, uint32_t since) {
  pending.reset(); // of a run that was given up
  newQueries = newTokens;
  policy.begin(length, budget, newTokens, since);
  // While decoding every run is a little longer than the last.
  constexpr uint32_t ahead = 256;
  if (length > policy.planned)
    policy.planFor(length + ahead, isForMerged() ? KVC_MERGED : KVC_RAGGED);
  if (policy.info.inputs & KVC_READS_ANGLES)
    rope.reach(policy.planned);
}

void GpuCacheCompressor::makeRoom(const GpuCache &cache) {
  size_t all = std::max<size_t>(cache.allRows(policy.layer), 1);
  size_t most = std::max<size_t>(cache.longest(policy.layer), 1);
  if (most > longest)
    indices = Buffer(queue, config.kvHeads * most * sizeof(int32_t));
  if (all > rows) {
    size_t rowBytes = config.headDim * rt::dtypeBytes(queue.dtype);
    kOut = Buffer(queue, all * rowBytes);
    vOut = Buffer(queue, all * rowBytes);
    positionsOut = Buffer(queue, all * sizeof(int32_t));
    policy.makeStates(all);
  }
  policy.makeMembers(uint32_t(most));
  longest = std::max(longest, most);
  rows = std::max(rows, all);
}

kvc_layer_args GpuCacheCompressor::arguments(const kvc_cache_view &view,
                                             const GpuQueries *queries) {
  uint32_t layer = policy.layer, length = policy.tokens;
  kvc_layer_args args = policy.arguments();
  args.cache = &view;
  if (uint32_t wanted = policy.info.queries) {
    uint32_t read = wanted == KVC_ALL_QUERIES
                        ? std::max(queriesRead(length, newQueries), 1u)
                        : wanted;
    args.q = queries->rowsOf(layer, read);
    args.q_rows = read;
    if (const float *lse = queries->lseOf(layer, std::min(read, length))) {
      args.lse = lse - (read - std::min(read, length));
      args.lse_rows = read;
      args.lse_head_stride = queries->room(layer);
      args.lse_batch_stride = int64_t(queries->room(layer)) * config.qHeads;
    }
  }
  if (policy.info.inputs & KVC_READS_ANGLES) {
    args.rope = rope.at(0);
    args.rope_positions = policy.planned;
  }
  args.indices = indices.as<int32_t>();
  args.index_capacity = uint32_t(longest);
  args.k_out = kOut.data();
  args.v_out = vOut.data();
  args.positions_out = positionsOut.as<int32_t>();
  args.out_rows = uint32_t(rows);
  return args;
}

bool GpuCacheCompressor::isWhole(const GpuCache &cache) const {
  return cache.allRows(policy.layer) == size_t(config.kvHeads) * policy.tokens;
}

void GpuCacheCompressor::compress(rt::Cache &cache, rt::RecentQueries *recent,
                                  rt::KeptSequence *kept) {
  settle();
  auto &mine = static_cast<GpuCache &>(cache);
  auto *queries = static_cast<GpuQueries *>(recent);
  checkMerged(mine.merged(policy.layer));
  uint32_t read = 0, layer = policy.layer;
  if (uint32_t wanted = policy.info.queries) {
    read = std::min(wanted, queries->count(layer));
    // Rows of zeros stand for queries that nobody reads, not for those of all tokens.
    if (wanted == KVC_ALL_QUERIES)
      checkQueries(read, queriesRead(policy.tokens, newQueries), policy.tokens,
                   carries() ? isWhole(mine) : true);
    queries->makeRows(layer);
  }
  kvc_cache_view view = mine.view(layer, policy.length(), members);
  makeRoom(mine);
  kvc_layer_args args = arguments(view, queries);
  args.row_states = mine.states(layer, manifest().states);
  policy.enqueue(args);
  pending = {&mine, queries, layer, read};
  if (kept) {
    settle();
    tell(*kept);
  }
}

void GpuCacheCompressor::settle() {
  if (!pending)
    return;
  Pending now = *pending;
  pending.reset();
  uint32_t heads = config.kvHeads;
  const int32_t *values = policy.wait();
  KeptRows kept = policy.keptRows(kOut, vOut, values);
  kept.positions = positionsOut.as<int32_t>();
  kept.positionsAt = {.at = policy.result(GpuPolicy::Offsets)};
  size_t before = now.cache->allRows(now.layer), after = 0;
  bool ranked = false;
  for (uint32_t h = 0; h < heads; ++h) {
    after += size_t(values[h]);
    ranked |= values[GpuPolicy::Past * heads + h] > 0;
  }
  if (ranked && !carries())
    checkQueries(now.read, queriesRead(policy.tokens, newQueries),
                 policy.tokens, before == size_t(heads) * policy.tokens);
  if (after == before && !carries() && !isForMerged())
    return;
  if (now.queries && after < before)
    now.queries->evicted(now.layer);
  policy.addStates(kept, rows);
  policy.addMembers(kept, values);
  now.cache->replace(now.layer, kept);
}

void GpuCacheCompressor::tell(rt::KeptSequence &kept) const {
  kept.counts = policy.downloaded(GpuPolicy::Counts);
  size_t sum = 0;
  for (int32_t count : kept.counts)
    sum += size_t(count);
  kept.positions = queue.downloaded<int32_t>(positionsOut.data(), sum);
  kept.states = policy.statesOf(sum, rows);
  kept.members = policy.members();
}
