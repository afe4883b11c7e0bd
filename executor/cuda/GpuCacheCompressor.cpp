//===- GpuCacheCompressor.cpp - a policy over caches on a GPU -------------===//

#include "executor/cuda/GpuCacheCompressor.h"

#include "executor/eviction/HeadTable.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;

// Lists of `results`; the status stands behind them.
enum { CountList, OffsetList, PastList, Lists };

static kvc_target gpuTarget() {
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = KVC_CUDA;
  return target;
}

GpuCacheCompressor::GpuCacheCompressor(const rt::PolicyOptions &options,
                                       Queue &queue, const rt::Config &config,
                                       const GpuWeights &weights)
    : queue(queue), config(config), weights(weights),
      module(options.policy, gpuTarget()),
      results(queue, (Lists * config.kvHeads + 1) * sizeof(int32_t)),
      limits(queue, 2 * sizeof(int32_t)), readback(queue, results.bytes()),
      begun(queue, /*timed=*/true), done(queue, /*timed=*/true) {
  bool mine = manifest().reads(rt::Argument::table) || !options.sharesTable;
  table = queue.uploaded(rt::readTable(manifest(), mine ? options.table : "",
                                       config.layers, config.qHeads));
  begin(1, 1); // says now if the policy is not compiled for such caches
  checkInputs();
}

void GpuCacheCompressor::begin(uint32_t newLength, uint32_t budget) {
  pending.reset(); // of a run that was given up
  length = newLength;
  layer = 0;
  queue.clear(results.data(), results.bytes());
  int32_t both[] = {int32_t(length),
                    int32_t(std::min<uint32_t>(budget, INT32_MAX))};
  queue.upload(limits.data(), both, sizeof both);
  if (length <= planned)
    return;
  // While decoding every run is a little longer than the last.
  constexpr uint32_t ahead = 256;
  planned = length + ahead;
  kvc_plan_options options = {};
  options.struct_size = sizeof options;
  options.head_dim = config.headDim;
  options.q_heads = config.qHeads;
  options.kv_heads = config.kvHeads;
  options.max_batch = 1;
  options.max_tokens = planned;
  options.dtype = queue.dtype;
  options.cache = KVC_RAGGED;
  plan.emplace(module, options);
  info = plan->query();
  workspace = Buffer(queue, info.workspace_bytes);
  if (info.inputs & KVC_READS_STATE)
    state = Buffer(queue, planned * sizeof(int32_t));
}

void GpuCacheCompressor::makeRoom(const GpuCache &cache) {
  size_t all = std::max<size_t>(cache.allRows(layer), 1);
  size_t most = std::max<size_t>(cache.longest(layer), 1);
  if (most > longest)
    indices = Buffer(queue, config.kvHeads * most * sizeof(int32_t));
  if (all > rows) {
    size_t rowBytes = config.headDim * rt::dtypeBytes(queue.dtype);
    kOut = Buffer(queue, all * rowBytes);
    vOut = Buffer(queue, all * rowBytes);
    positionsOut = Buffer(queue, all * sizeof(int32_t));
  }
  longest = std::max(longest, most);
  rows = std::max(rows, all);
}

kvc_layer_args GpuCacheCompressor::arguments(const kvc_cache_view &view,
                                             const GpuQueries *queries) {
  int64_t d = config.headDim;
  kvc_layer_args args = {};
  args.struct_size = sizeof args;
  args.batch = 1;
  args.tokens = length;
  args.layer = layer;
  args.layers = config.layers;
  args.cache = &view;
  args.budgets = limits.as<int32_t>() + 1;
  if (info.queries) {
    uint32_t read = info.queries == KVC_ALL_QUERIES ? length : info.queries;
    args.q = queries->rowsOf(layer, read);
    args.q_rows = read;
    if (const float *lse = queries->lseOf(layer, std::min(read, length))) {
      args.lse = lse - (read - std::min(read, length));
      args.lse_rows = read;
      args.lse_head_stride = queries->room(layer);
      args.lse_batch_stride = int64_t(queries->room(layer)) * config.qHeads;
    }
  }
  if (info.inputs & KVC_READS_WO) {
    args.wo = {weights.layers[layer].o.weight.data(), 0, d, config.qHeads * d};
    args.hidden = config.hidden;
  }
  if (info.inputs & KVC_READS_TABLE)
    args.table = table.as<float>();
  if (info.inputs & KVC_READS_STATE) {
    args.state = state.as<int32_t>();
    args.state_rows = planned;
  }
  args.indices = indices.as<int32_t>();
  args.index_capacity = uint32_t(longest);
  args.counts = result(CountList);
  args.offsets = result(OffsetList);
  args.past = result(PastList);
  args.status = result(Lists);
  args.k_out = kOut.data();
  args.v_out = vOut.data();
  args.positions_out = positionsOut.as<int32_t>();
  args.out_rows = uint32_t(rows);
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  return args;
}

void GpuCacheCompressor::compress(rt::Cache &cache, rt::RecentQueries *recent,
                                  rt::KeptSequence *kept) {
  settle();
  auto &mine = static_cast<GpuCache &>(cache);
  auto *queries = static_cast<GpuQueries *>(recent);
  if (mine.merged(layer))
    refuseMerged();
  uint32_t read = 0;
  if (info.queries) {
    read = std::min(info.queries, queries->count(layer));
    // Rows of zeros stand for queries that nobody reads, not for those of all tokens.
    if (info.queries == KVC_ALL_QUERIES && read < length)
      checkQueries(read, length, true);
    queries->makeRows(layer);
  }
  kvc_cache_view view = mine.view(layer, limits.as<int32_t>());
  makeRoom(mine);
  if (layer == 0 && state)
    queue.clear(state.data(), state.bytes());
  begun.record();
  plan->enqueue(arguments(view, queries), rt::Phase::Score, rt::Phase::Compact,
                queue.stream());
  done.record();
  readback.start(results.data());
  pending = {&mine, queries, layer++, read};
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
  const auto *values = readback.wait<int32_t>();
  elapsed += done.secondsSince(begun);
  int32_t status = values[Lists * heads];
  if (status & KVC_DATA_CAPACITY)
    throw rt::fail(KVC_INTERNAL_ERROR, "kept rows do not fit their cache");
  nan |= status & KVC_DATA_NAN;
  KeptRows kept = {};
  kept.k = kOut.data();
  kept.v = vOut.data();
  kept.counts = result(CountList);
  kept.offsets = result(OffsetList);
  kept.hostCounts.assign(values, values + heads);
  kept.positions = positionsOut.as<int32_t>();
  kept.positionsAt = {.at = result(OffsetList)};
  size_t before = now.cache->allRows(now.layer), after = 0;
  bool ranked = false;
  for (uint32_t h = 0; h < heads; ++h) {
    after += size_t(values[h]);
    ranked |= values[PastList * heads + h] > 0;
  }
  if (ranked)
    checkQueries(now.read, length, before == size_t(heads) * length);
  if (after == before)
    return;
  if (now.queries)
    now.queries->evicted(now.layer);
  now.cache->replace(now.layer, kept);
}

void GpuCacheCompressor::tell(rt::KeptSequence &kept) const {
  kept.counts = queue.downloaded<int32_t>(result(CountList), config.kvHeads);
  size_t sum = 0;
  for (int32_t count : kept.counts)
    sum += size_t(count);
  kept.positions = queue.downloaded<int32_t>(positionsOut.data(), sum);
}
