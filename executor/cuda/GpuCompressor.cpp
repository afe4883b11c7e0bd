//===- GpuCompressor.cpp - a policy beside a model on a GPU ---------------===//

#include "executor/cuda/GpuCompressor.h"

#include "runtime/base/DType.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;

GpuCompressor::GpuCompressor(const rt::PolicyOptions &options, Queue &queue,
                             const rt::Config &config,
                             const GpuWeights &weights)
    : queue(queue), config(config), policy(options, queue, config, weights) {
  begin(1, 1); // says now if the policy is not compiled for the model
}

void GpuCompressor::begin(uint32_t tokens, uint32_t budget) {
  pending.reset(); // of a prompt that was given up
  policy.begin(tokens, budget, tokens, 0);
  if (!policy.planFor(tokens, KVC_DENSE))
    return;
  policy.makeStates(size_t(config.kvHeads) * tokens);
  size_t entries = size_t(config.kvHeads) * tokens;
  size_t rowBytes = config.headDim * rt::dtypeBytes(queue.dtype);
  indices = Buffer(queue, entries * sizeof(int32_t));
  kOut = Buffer(queue, entries * rowBytes);
  vOut = Buffer(queue, entries * rowBytes);
  policy.makeMembers(tokens);
}

kvc_layer_args GpuCompressor::arguments(const GpuActivations &from) {
  int64_t d = config.headDim;
  auto rows = [&](const Buffer &buffer, int64_t heads, int64_t headRows) {
    return kvc_rows{buffer.data(), heads * headRows * d, headRows * d, d};
  };
  uint32_t tokens = policy.tokens, inputs = policy.info.inputs;
  kvc_layer_args args = policy.arguments();
  args.lengths = policy.length();
  args.k = rows(from.k, config.kvHeads, from.headRows);
  args.v = rows(from.v, config.kvHeads, from.headRows);
  args.q = rows(from.q, config.qHeads, from.queries);
  args.q_rows = from.queries;
  if (inputs & KVC_READS_RAW_KEYS)
    args.k_raw = rows(from.kRaw, config.kvHeads, from.tokens);
  if (from.lse) {
    args.lse = from.lse.as<float>();
    args.lse_rows = from.queries;
    args.lse_head_stride = from.queries;
    args.lse_batch_stride = int64_t(from.queries) * config.qHeads;
  }
  args.indices = indices.as<int32_t>();
  args.index_capacity = tokens;
  args.k_out = kOut.data();
  args.v_out = vOut.data();
  args.out_rows = config.kvHeads * tokens;
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
  uint32_t layer = policy.layer;
  policy.enqueue(args);
  pending = {static_cast<GpuCache *>(&cache), layer, position};
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
  const int32_t *values = policy.wait();
  KeptRows kept = policy.keptRows(kOut, vOut, values);
  kept.positions = indices.as<int32_t>();
  kept.positionsAt = {.stride = policy.tokens};
  kept.addPosition = int32_t(now.position);
  policy.addStates(kept, size_t(config.kvHeads) * policy.tokens);
  policy.addMembers(kept, values);
  now.cache->append(now.layer, kept, now.position);
}

void GpuCompressor::finish() { settle(); }

void GpuCompressor::tell(rt::KeptSequence &kept) const {
  uint32_t heads = config.kvHeads;
  size_t rowBytes = config.headDim * rt::dtypeBytes(queue.dtype);
  kept.counts = policy.downloaded(GpuPolicy::Counts);
  kept.past = uint32_t(policy.downloaded(GpuPolicy::Past).front());
  for (uint32_t h = 0; h < heads; ++h) {
    auto own = queue.downloaded<int32_t>(
        indices.data(size_t(h) * policy.tokens * sizeof(int32_t)),
        size_t(kept.counts[h]));
    kept.indices.insert(kept.indices.end(), own.begin(), own.end());
  }
  size_t rows = kept.indices.size();
  kept.k =
      rt::bytesOf(queue.downloaded<std::byte>(kOut.data(), rows * rowBytes));
  kept.v =
      rt::bytesOf(queue.downloaded<std::byte>(vOut.data(), rows * rowBytes));
  kept.members = policy.members();
}
