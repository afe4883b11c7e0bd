//===- RowsCall.cpp - a policy on one layer of a cache of rows ------------===//

#include "test/matrix/RowsCall.h"

#include "runtime/base/DType.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

using namespace kvc;
using namespace kvc::test;

static void check(kvc_status status) {
  if (status != KVC_OK)
    throw std::runtime_error(lastError());
}

/// Rows behind each other, in the cache's type.
static std::vector<std::byte>
packed(const std::vector<std::vector<float>> &rows, kvc_dtype dtype) {
  std::vector<std::byte> bytes;
  for (const std::vector<float> &row : rows) {
    std::vector<std::byte> one = rt::narrow(row.data(), row.size(), dtype);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

bool RowsKept::operator==(const RowsKept &other) const {
  return indices == other.indices && positions == other.positions &&
         k == other.k && v == other.v && scores.size() == other.scores.size() &&
         (scores.empty() || std::memcmp(scores.data(), other.scores.data(),
                                        scores.size() * sizeof(float)) == 0);
}

RowsResult kvc::test::evictRows(kvc_module *module, const Laid &cache,
                                const Laid *raw, const RowsInput &input,
                                bool prompt) {
  const kvc_cache_view &view = cache.view;
  uint32_t batch = view.batch, heads = view.kv_heads, d = view.head_dim;
  uint32_t qHeads = heads * input.group;
  uint32_t most = input.tokens;

  kvc_plan_options options = {};
  options.struct_size = sizeof options;
  options.head_dim = d;
  options.q_heads = qHeads;
  options.kv_heads = heads;
  options.dtype = view.dtype;
  options.max_batch = batch;
  options.max_tokens = most + 3;
  options.cache = prompt                   ? KVC_DENSE
                  : view.kind == KVC_PAGED ? KVC_PAGED
                                           : KVC_RAGGED;
  kvc_plan *plan = nullptr;
  check(kvc_plan_create(module, &options, &plan));
  std::unique_ptr<kvc_plan, void (*)(kvc_plan *)> owner(plan, kvc_plan_destroy);
  kvc_plan_info info = {};
  info.struct_size = sizeof info;
  check(kvc_plan_query(plan, &info));

  std::vector<std::byte> q = packed(input.q, view.dtype),
                         wo = packed(input.wo, view.dtype);
  std::vector<std::byte> workspace(info.workspace_bytes +
                                   info.workspace_alignment);
  uint32_t capacity = most, outRows = heads * (most + 2);
  std::vector<int32_t> indices(batch * heads * capacity, -1),
      counts(batch * heads, -1), past(batch * heads, -1),
      offsets(batch * heads, -1), positions(batch * outRows, -1);
  size_t rowBytes = d * rt::dtypeBytes(view.dtype);
  std::vector<std::byte> k(batch * outRows * rowBytes), v(k.size());
  RowsResult result;

  kvc_layer_args args = {};
  args.struct_size = sizeof args;
  args.batch = batch;
  args.tokens = most;
  args.layer = uint32_t(input.layer);
  args.layers = uint32_t(input.layers);
  args.budgets = input.budgets.data();
  if (prompt) {
    auto rows = [](const kvc_plane &plane) -> kvc_rows {
      return {plane.data, plane.batch_stride, plane.head_stride,
              plane.row_stride};
    };
    args.lengths = view.lengths;
    args.k = rows(view.k);
    args.v = rows(view.v);
  } else {
    args.cache = &view;
    args.positions_out = positions.data();
  }
  int64_t row = d;
  args.q = {q.data(), qHeads * input.queries * row, input.queries * row, row};
  args.q_rows = input.queries;
  if (raw)
    args.k_raw = {raw->view.k.data, raw->view.k.batch_stride,
                  raw->view.k.head_stride, raw->view.k.row_stride};
  args.wo = {wo.data(), 0, row, qHeads * row};
  args.hidden = input.hidden;
  args.table = input.table.data();
  // A word is the layer that counted last and the count.
  std::vector<int32_t> state = input.keptLayers;
  for (int32_t &word : state)
    word |= int32_t(input.layer) << 16;
  args.state = state.empty() ? nullptr : state.data();
  args.state_rows = most;
  args.indices = indices.data();
  args.index_capacity = capacity;
  args.counts = counts.data();
  args.past = past.data();
  args.status = &result.status;
  args.k_out = k.data();
  args.v_out = v.data();
  args.offsets = offsets.data();
  args.out_rows = outRows;
  args.slack = 2;
  auto at = reinterpret_cast<uintptr_t>(workspace.data());
  size_t shift = (info.workspace_alignment - at % info.workspace_alignment) %
                 info.workspace_alignment;
  args.workspace = workspace.data() + shift;
  args.workspace_bytes = info.workspace_bytes;
  check(kvc_layer_evict(plan, &args, nullptr));

  for (int32_t word : state)
    result.keptLayers.push_back(word & 0xffff);
  if (result.status & KVC_DATA_CACHE)
    return result;                 // what was kept means nothing
  const Cache rows = cache.read(); // whose positions place scores
  for (uint32_t s = 0; s < batch; ++s)
    for (uint32_t g = 0; g < heads; ++g) {
      uint32_t own = s * heads + g;
      RowsKept &kept = result.heads.emplace_back();
      auto first = indices.begin() + own * capacity;
      kept.indices.assign(first, first + counts[own]);
      size_t from = s * outRows + offsets[own], to = from + counts[own];
      kept.positions.assign(positions.begin() + from, positions.begin() + to);
      kept.k.assign(k.begin() + from * rowBytes, k.begin() + to * rowBytes);
      kept.v.assign(v.begin() + from * rowBytes, v.begin() + to * rowBytes);
      int32_t ranked = prompt ? past[s] : past[own];
      if (info.scores_offset >= 0 && ranked) {
        auto *scores = reinterpret_cast<const float *>(
            static_cast<std::byte *>(args.workspace) + info.scores_offset);
        scores += (s * info.scores_heads + (info.scores_heads > 1 ? g : 0)) *
                  args.tokens;
        for (int32_t r = 0; r < ranked; ++r)
          kept.scores.push_back(
              scores[info.scores_by_position ? rows.head(s, g).positions[r]
                                             : r]);
      }
    }
  return result;
}
