//===- LayerCall.cpp - one layer's way through a plan ---------------------===//

#include "executor/eviction/LayerCall.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::rt;

LayerCall::LayerCall(const kvc_plan &plan,
                     const std::vector<LayerSequence> &batch, float scale,
                     uint32_t layer, uint32_t layers)
    : plan(plan), info(plan.query()), batch(batch), arena(*plan.module.device),
      heads(plan.options.kv_heads),
      rowBytes(plan.options.head_dim * dtypeBytes(plan.options.dtype)) {
  args.struct_size = sizeof args;
  args.layer = layer;
  args.layers = layers;
  args.scale = scale;
  setSequences();
  setCache();
  if (info.queries)
    setQueries();
  if (info.inputs & KVC_READS_WO)
    setProjection();
  setOutputs();
}

void LayerCall::setSequences() {
  std::vector<int32_t> lengths, budgets;
  for (const LayerSequence &sequence : batch) {
    tokens = std::max(tokens, sequence.tokens);
    lengths.push_back(int32_t(sequence.tokens));
    budgets.push_back(int32_t(std::min<uint32_t>(sequence.budget, INT32_MAX)));
  }
  args.batch = uint32_t(batch.size());
  args.tokens = tokens;
  args.lengths = arena.upload(lengths);
  args.budgets = arena.upload(budgets);
}

/// Sequences are padded to the longest: the cache behind its rows, queries in
/// front, so that the last row is the last query's.
LayerCall::Packed LayerCall::pack(const Source &source, size_t packedHeads,
                                  size_t rows, size_t bytes) {
  const LayerSequence &only = batch[0];
  const std::byte *from = source.pointer(only);
  size_t present = source.rows(only);
  if (batch.size() == 1 && arena.device.onHost() && from && present >= rows) {
    // Kernels only read it: no copy of what lies well as it is.
    from += source.last ? (present - rows) * bytes : 0;
    if (reinterpret_cast<uintptr_t>(from) % 16 == 0 &&
        present * bytes % 16 == 0)
      return {const_cast<std::byte *>(from), present};
  }
  auto *memory =
      arena.zeros<std::byte>(batch.size() * packedHeads * rows * bytes);
  for (size_t s = 0; s < batch.size(); ++s) {
    const std::byte *data = source.pointer(batch[s]);
    size_t have = source.rows(batch[s]), used = std::min(have, rows);
    size_t first = source.last ? rows - used : 0;
    for (size_t h = 0; data && h < packedHeads; ++h)
      arena.device.upload(
          memory + ((s * packedHeads + h) * rows + first) * bytes,
          data + (h * have + have - used) * bytes, used * bytes);
  }
  return {memory, rows};
}

kvc_rows LayerCall::rowsOf(const Packed &packed, size_t packedHeads) const {
  int64_t d = plan.options.head_dim;
  return {packed.memory, int64_t(packedHeads * packed.headRows) * d,
          int64_t(packed.headRows) * d, d};
}

void LayerCall::setCache() {
  auto cache = [&](const std::byte *(*pointer)(const LayerSequence &)) {
    auto rows = [](const LayerSequence &s) { return size_t(s.tokens); };
    return rowsOf(pack({pointer, rows, false}, heads, tokens, rowBytes), heads);
  };
  args.k = cache([](const LayerSequence &s) { return s.k; });
  args.v = cache([](const LayerSequence &s) { return s.v; });
  if (info.inputs & KVC_READS_RAW_KEYS)
    args.k_raw = cache([](const LayerSequence &s) { return s.kRaw; });
}

void LayerCall::setQueries() {
  uint32_t queries = info.queries == KVC_ALL_QUERIES ? tokens : info.queries;
  size_t queryHeads = plan.options.q_heads;
  auto rows = [](const LayerSequence &s) { return size_t(s.queries); };
  Source q{[](const LayerSequence &s) { return s.q; }, rows, true};
  args.q = rowsOf(pack(q, queryHeads, queries, rowBytes), queryHeads);
  args.q_rows = queries;
  if (!std::all_of(batch.begin(), batch.end(),
                   [](const LayerSequence &s) { return s.lse; }))
    return;
  Source lse{[](const LayerSequence &s) {
               return reinterpret_cast<const std::byte *>(s.lse);
             },
             rows, true};
  Packed packed = pack(lse, queryHeads, queries, sizeof(float));
  args.lse = reinterpret_cast<float *>(packed.memory);
  args.lse_rows = queries;
  args.lse_head_stride = int64_t(packed.headRows);
  args.lse_batch_stride = int64_t(packed.headRows * queryHeads);
}

void LayerCall::setProjection() {
  // Nobody reads it where nothing is scored, but the plan wants to see one.
  args.hidden = 1;
  for (const LayerSequence &sequence : batch)
    args.hidden = std::max(args.hidden, sequence.hidden);
  size_t bytes = args.hidden * plan.options.q_heads * rowBytes;
  auto *memory = arena.zeros<std::byte>(batch.size() * bytes);
  for (size_t s = 0; s < batch.size(); ++s)
    if (batch[s].wo)
      arena.device.upload(memory + s * bytes, batch[s].wo, bytes);
  int64_t d = plan.options.head_dim, width = d * plan.options.q_heads;
  args.wo = {memory, width * args.hidden, d, width};
}

void LayerCall::setTable(const std::vector<float> &table) {
  args.table = arena.upload(table);
}

void LayerCall::setState(int32_t *memory) {
  args.state = memory;
  args.state_rows = tokens;
}

void LayerCall::setOutputs() {
  size_t rows = batch.size() * heads;
  args.index_capacity = tokens; // a head never keeps more than all
  args.indices = arena.zeros<int32_t>(rows * tokens);
  args.counts = arena.zeros<int32_t>(rows);
  args.past = arena.zeros<int32_t>(batch.size());
  args.status = arena.zeros<int32_t>(1);
  args.offsets = arena.zeros<int32_t>(rows);
  if (info.inputs & KVC_MERGES) {
    args.member_capacity = tokens;
    args.member_rows = arena.zeros<int32_t>(rows * tokens);
    args.member_positions = arena.zeros<int32_t>(rows * tokens);
    args.member_norms = arena.zeros<float>(rows * tokens);
    args.member_counts = arena.zeros<int32_t>(rows);
  }
  args.workspace = arena.zeros<std::byte>(info.workspace_bytes);
  args.workspace_bytes = info.workspace_bytes;
}

void LayerCall::makeCache(const std::vector<int32_t> &counts) {
  for (size_t s = 0; s < batch.size(); ++s) {
    size_t sum = 0;
    for (size_t h = 0; h < heads; ++h)
      sum += size_t(counts[s * heads + h]);
    outRows = std::max(outRows, sum);
  }
  args.out_rows = uint32_t(outRows);
  args.k_out = arena.zeros<std::byte>(batch.size() * outRows * rowBytes);
  args.v_out = arena.zeros<std::byte>(batch.size() * outRows * rowBytes);
}

KeptLayer LayerCall::run(bool scores) {
  plan.enqueue(args, Phase::Score, Phase::Select, nullptr);
  arena.device.synchronize();
  makeCache(arena.download(args.counts, batch.size() * heads));
  plan.enqueue(args, Phase::Compact, Phase::Compact, nullptr);
  arena.device.synchronize();
  KeptLayer result;
  int32_t status = arena.download(args.status, 1)[0];
  if (status & KVC_DATA_CAPACITY)
    throw fail(KVC_INTERNAL_ERROR, "kept rows do not fit their cache");
  result.nanScores = status & KVC_DATA_NAN;
  for (size_t s = 0; s < batch.size(); ++s)
    result.sequences.push_back(read(s, scores));
  return result;
}

KeptSequence LayerCall::read(size_t s, bool scores) const {
  KeptSequence kept;
  kept.counts = arena.download(args.counts + s * heads, heads);
  size_t sum = 0;
  for (size_t h = 0; h < heads; ++h) {
    auto list = arena.download(args.indices + (s * heads + h) * tokens,
                               size_t(kept.counts[h]));
    kept.indices.insert(kept.indices.end(), list.begin(), list.end());
    sum += list.size();
  }
  auto cache = [&](const void *out) {
    return arena.download(static_cast<const std::byte *>(out) +
                              s * outRows * rowBytes,
                          sum * rowBytes);
  };
  kept.k = cache(args.k_out);
  kept.v = cache(args.v_out);
  kept.past = uint32_t(arena.download(args.past + s, 1)[0]);
  if (info.inputs & KVC_MERGES)
    kept.members = readMembers(s);
  if (!scores || info.scores_offset < 0 || !kept.past)
    return kept;
  auto *ranked = reinterpret_cast<const float *>(
      static_cast<const std::byte *>(args.workspace) + info.scores_offset);
  for (size_t h = 0; h < heads; ++h) {
    size_t from =
        s * info.scores_heads + std::min<size_t>(h, info.scores_heads - 1);
    auto line = arena.download(ranked + from * tokens, kept.past);
    kept.scores.insert(kept.scores.end(), line.begin(), line.end());
  }
  return kept;
}

MemberTable LayerCall::readMembers(size_t s) const {
  MemberTable table;
  table.counts = arena.download(args.member_counts + s * heads, heads);
  auto append = [&](auto &to, const auto *from, size_t head) {
    auto part = arena.download(from + (s * heads + head) * args.member_capacity,
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
