//===- GpuCompressor.cpp - a policy beside a model on a GPU ---------------===//

#include "executor/cuda/GpuCompressor.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "executor/eviction/HeadTable.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;

// Lists of `results`; past and status stand behind them.
enum { Counts, Offsets, MemberCounts, Past };

static kvc_target cudaTarget() {
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = KVC_CUDA;
  return target;
}

GpuCompressor::GpuCompressor(const rt::PolicyOptions &options, Queue &queue,
                             const rt::Config &config,
                             const GpuWeights &weights)
    : queue(queue), config(config), weights(weights),
      module(options.policy, cudaTarget()),
      results(queue, (3 * config.kvHeads + 2) * sizeof(int32_t)),
      limits(queue, 2 * sizeof(int32_t)), readback(queue, results.bytes()),
      begun(queue, /*timed=*/true), done(queue, /*timed=*/true) {
  bool mine = manifest().reads(rt::Argument::table) || !options.sharesTable;
  table = queue.uploaded(rt::readTable(manifest(), mine ? options.table : "",
                                       config.layers, config.qHeads));
  begin(1, 1); // says now if the policy is not compiled for the model
}

void GpuCompressor::begin(uint32_t newTokens, uint32_t budget) {
  pending.reset(); // of a prompt that was given up
  tokens = newTokens;
  layer = 0;
  queue.clear(results.data(), results.bytes());
  int32_t both[] = {int32_t(tokens),
                    int32_t(std::min<uint32_t>(budget, INT32_MAX))};
  queue.upload(limits.data(), both, sizeof both);
  if (tokens <= planned)
    return;
  kvc_plan_options options = {};
  options.struct_size = sizeof options;
  options.head_dim = config.headDim;
  options.q_heads = config.qHeads;
  options.kv_heads = config.kvHeads;
  options.max_batch = 1;
  options.max_tokens = tokens;
  options.dtype = queue.dtype;
  plan.emplace(module, options);
  info = plan->query();
  planned = tokens;
  size_t entries = size_t(config.kvHeads) * tokens;
  size_t rowBytes = config.headDim * rt::dtypeBytes(queue.dtype);
  workspace = Buffer(queue, info.workspace_bytes);
  indices = Buffer(queue, entries * sizeof(int32_t));
  kOut = Buffer(queue, entries * rowBytes);
  vOut = Buffer(queue, entries * rowBytes);
  if (info.inputs & KVC_READS_STATE)
    state = Buffer(queue, tokens * sizeof(int32_t));
  if (info.inputs & KVC_MERGES)
    for (Buffer *list : {&memberRows, &memberPositions, &memberNorms})
      *list = Buffer(queue, entries * sizeof(int32_t));
}

kvc_layer_args GpuCompressor::arguments(const GpuActivations &from) {
  int64_t d = config.headDim;
  auto rows = [&](const Buffer &buffer, int64_t heads, int64_t headRows) {
    return kvc_rows{buffer.data(), heads * headRows * d, headRows * d, d};
  };
  kvc_layer_args args = {};
  args.struct_size = sizeof args;
  args.batch = 1;
  args.tokens = tokens;
  args.layer = layer;
  args.layers = config.layers;
  args.lengths = limits.as<int32_t>();
  args.budgets = limits.as<int32_t>() + 1;
  args.k = rows(from.k, config.kvHeads, from.headRows);
  args.v = rows(from.v, config.kvHeads, from.headRows);
  args.q = rows(from.q, config.qHeads, from.queries);
  args.q_rows = from.queries;
  if (info.inputs & KVC_READS_RAW_KEYS)
    args.k_raw = rows(from.kRaw, config.kvHeads, from.tokens);
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
  if (from.lse) {
    args.lse = from.lse.as<float>();
    args.lse_rows = from.queries;
    args.lse_head_stride = from.queries;
    args.lse_batch_stride = int64_t(from.queries) * config.qHeads;
  }
  args.indices = indices.as<int32_t>();
  args.index_capacity = tokens;
  args.counts = result(Counts);
  args.offsets = result(Offsets);
  args.past = result(Past);
  args.status = result(Past) + 1;
  args.k_out = kOut.data();
  args.v_out = vOut.data();
  args.out_rows = config.kvHeads * tokens;
  if (info.inputs & KVC_MERGES) {
    args.member_rows = memberRows.as<int32_t>();
    args.member_positions = memberPositions.as<int32_t>();
    args.member_norms = memberNorms.as<float>();
    args.member_counts = result(MemberCounts);
    args.member_capacity = tokens;
  }
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  return args;
}

void GpuCompressor::compress(const rt::Activations &activations,
                             uint32_t position, rt::Cache &cache,
                             rt::KeptSequence *kept) {
  settle();
  auto &from = static_cast<const GpuActivations &>(activations);
  kvc_layer_args args = arguments(from);
  // A prompt may be shorter than the queries that scoring reads: then they
  // stand behind rows that nobody reads.
  Buffer q, lse;
  uint32_t wanted = manifest().queries;
  if (wanted != KVC_ALL_QUERIES && from.queries < wanted) {
    size_t row = config.headDim * rt::dtypeBytes(queue.dtype);
    auto pad = [&](const Buffer &rows, size_t width) {
      Buffer padded(queue, config.qHeads * wanted * width);
      queue.clear(padded.data(), padded.bytes());
      queue.copyRows(padded.data((wanted - from.queries) * width),
                     wanted * width, rows.data(), from.queries * width,
                     from.queries * width, config.qHeads);
      return padded;
    };
    int64_t d = config.headDim, headStride = wanted * d;
    q = pad(from.q, row);
    args.q = {q.data(), config.qHeads * headStride, headStride, d};
    args.q_rows = wanted;
    if (from.lse) {
      lse = pad(from.lse, sizeof(float));
      args.lse = lse.as<float>();
      args.lse_rows = wanted;
      args.lse_head_stride = wanted;
      args.lse_batch_stride = int64_t(wanted) * config.qHeads;
    }
  }
  if (layer == 0 && state)
    queue.clear(state.data(), state.bytes());
  begun.record();
  plan->enqueue(args, rt::Phase::Score, rt::Phase::Compact, queue.stream());
  done.record();
  readback.start(results.data());
  pending = {static_cast<GpuCache *>(&cache), layer++, position};
  if (kept) {
    settle();
    tell(*kept);
  }
}

void GpuCompressor::settle() {
  if (!pending)
    return;
  Pending now = *pending;
  pending.reset();
  uint32_t heads = config.kvHeads;
  const auto *values = readback.wait<int32_t>();
  elapsed += done.secondsSince(begun);
  int32_t status = values[3 * heads + 1];
  if (status & KVC_DATA_CAPACITY)
    throw rt::fail(KVC_INTERNAL_ERROR, "kept rows do not fit their cache");
  nan |= status & KVC_DATA_NAN;
  auto list = [&](uint32_t which) {
    return std::vector<int32_t>(values + which * heads,
                                values + (which + 1) * heads);
  };
  KeptRows kept = {};
  kept.k = kOut.data();
  kept.v = vOut.data();
  kept.counts = result(Counts);
  kept.offsets = result(Offsets);
  kept.hostCounts = list(Counts);
  kept.positions = indices.as<int32_t>();
  kept.positionsAt = {.stride = tokens};
  kept.addPosition = int32_t(now.position);
  if (info.inputs & KVC_MERGES) {
    kept.memberRows = memberRows.as<int32_t>();
    kept.memberPositions = memberPositions.as<int32_t>();
    kept.memberNorms = memberNorms.as<float>();
    kept.memberCounts = result(MemberCounts);
    kept.hostMemberCounts = list(MemberCounts);
    kept.memberCapacity = tokens;
  }
  now.cache->append(now.layer, kept, now.position);
}

void GpuCompressor::finish() { settle(); }

void GpuCompressor::tell(rt::KeptSequence &kept) const {
  uint32_t heads = config.kvHeads;
  size_t rowBytes = config.headDim * rt::dtypeBytes(queue.dtype);
  auto values = queue.downloaded<int32_t>(results.data(), 3 * heads + 1);
  kept.counts.assign(values.begin(), values.begin() + heads);
  kept.past = uint32_t(values[3 * heads]);
  // `counts` entries of a list of `tokens` per head.
  auto entries = [&](const Buffer &from, const int32_t *counts, auto &to) {
    using T = typename std::decay_t<decltype(to)>::value_type;
    for (uint32_t h = 0; h < heads; ++h) {
      auto part = queue.downloaded<T>(from.data(size_t(h) * tokens * sizeof(T)),
                                      size_t(counts[h]));
      to.insert(to.end(), part.begin(), part.end());
    }
  };
  entries(indices, kept.counts.data(), kept.indices);
  size_t rows = kept.indices.size();
  kept.k = queue.downloaded<std::byte>(kOut.data(), rows * rowBytes);
  kept.v = queue.downloaded<std::byte>(vOut.data(), rows * rowBytes);
  if (info.inputs & KVC_MERGES) {
    const int32_t *counts = &values[MemberCounts * heads];
    kept.members.counts.assign(counts, counts + heads);
    entries(memberRows, counts, kept.members.rows);
    entries(memberPositions, counts, kept.members.positions);
    entries(memberNorms, counts, kept.members.norms);
  }
}
