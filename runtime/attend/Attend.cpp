//===- Attend.cpp - attention on the host ---------------------------------===//

#include "runtime/attend/Attend.h"

#include "runtime/attend/Workers.h"
#include "runtime/base/Failure.h"
#include "runtime/base/DType.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

using namespace kvc::rt;

/// Below every logit; finite, so that differences are no NaN.
static constexpr float lowest = -3e38f;
static constexpr float log2e = 1.44269504088896340736f;

Attend::Attend(const AttendCall &call)
    : call(call), args(call.args), cache(call.cache),
      cut(cache.fields().batch, cache.fields().kv_heads, call.group,
          args.queries, call.mostKeys) {}

size_t Attend::workspaceBytes() const {
  return cut.workspaceBytes(cache.fields().head_dim);
}

size_t Attend::mostWorkspaceBytes() const {
  return cut.mostWorkspaceBytes(cache.fields().head_dim);
}

void Attend::checkArrays() const {
  cache.checkRows();
  const kvc_cache_view &view = cache.fields();
  for (uint32_t s = 0; s < view.batch; ++s) {
    int32_t length = cache.length(s);
    if (cache.members() && uint32_t(length) > args.rope_positions)
      throw fail(KVC_BAD_ARGUMENT,
                 "sequence {}: the length must be at most rope_positions ({}), "
                 "got {}",
                 s, args.rope_positions, length);
    for (uint32_t g = 0; g < view.kv_heads && args.max_rows; ++g)
      if (KeyList(cache, args, s, g).size() > args.max_rows)
        throw fail(KVC_EXCEEDS_LIMITS,
                   "sequence {}, head {}: rows or members must be at most "
                   "max_rows ({}), got {}",
                   s, g, args.max_rows, KeyList(cache, args, s, g).size());
  }
}

/// A thread costs about what reading some hundred KiB costs.
unsigned Attend::usefulThreads() const {
  constexpr uint64_t share = 256 << 10;
  const kvc_cache_view &view = cache.fields();
  uint64_t keys = 0;
  for (uint32_t s = 0; s < view.batch; ++s)
    for (uint32_t g = 0; g < view.kv_heads; ++g)
      keys += KeyList(cache, args, s, g).size();
  uint64_t bytes =
      keys * 2 * view.head_dim * dtypeBytes(view.dtype) * cut.blocks;
  unsigned threads =
      args.threads ? args.threads : std::thread::hardware_concurrency();
  return unsigned(std::min<uint64_t>(std::max(1u, threads), 1 + bytes / share));
}

uint32_t *Attend::countersAt() const {
  return static_cast<uint32_t *>(args.workspace);
}

float *Attend::partOf(const Item &item, uint32_t split) const {
  uint32_t dim = cache.fields().head_dim;
  size_t parts = cut.items() * cut.partFloats(dim);
  auto *end = static_cast<std::byte *>(args.workspace) + workspaceBytes();
  return reinterpret_cast<float *>(end) - parts +
         (item.number * cut.splits + split) * cut.partFloats(dim);
}

void Attend::run(TileKernel kernel) const {
  call.check(workspaceBytes());
  checkArrays();
  if (cut.splits > 1)
    std::fill_n(countersAt(), cut.items() / cut.splits, 0u);
  struct Context {
    const Attend *call;
    TileKernel kernel;
  } context = {this, kernel};
  runNumbered(cut.items(), usefulThreads(), &context, [](void *at, uint64_t i) {
    auto &context = *static_cast<Context *>(at);
    context.call->runItem(context.call->cut.item(i), context.kernel);
  });
}

void Attend::runItem(const Item &item, TileKernel kernel) const {
  KeyList list(cache, args, item.sequence, item.head);
  uint32_t splits = cut.splitsOf(list.size());
  if (item.split >= splits)
    return;
  Sums sums;
  sweep(item, list, kernel, sums);
  if (splits == 1)
    return store(item, sums);
  uint32_t dim = cache.fields().head_dim;
  float *part = partOf(item, item.split);
  for (uint32_t r = 0; r < item.rows; ++r, part += dim + 2) {
    std::copy_n(sums.values[r], dim, part);
    part[dim] = sums.most[r];
    part[dim + 1] = sums.weight[r];
  }
  // Who is last adds up, always in the same order.
  std::atomic_ref<uint32_t> counter(countersAt()[item.number]);
  if (counter.fetch_add(1, std::memory_order_acq_rel) + 1 != splits)
    return;
  combine(item, splits, sums);
  store(item, sums);
}

/// Times scale * log2(e), zeros behind the last element.
void Attend::loadQueries(const Item &item,
                         float (*to)[KVC_MAX_HEAD_DIM]) const {
  const kvc_cache_view &view = cache.fields();
  auto size = int64_t(dtypeBytes(view.dtype));
  float scale = call.scale();
  for (uint32_t r = 0; r < item.rows; ++r) {
    uint32_t row = item.firstRow + r, query = row / cut.group;
    uint32_t head = item.head * cut.group + row % cut.group;
    auto *from = static_cast<const std::byte *>(args.q.data) +
                 (item.sequence * args.q.batch_stride +
                  head * args.q.head_stride + query * args.q.row_stride) *
                     size;
    std::fill_n(to[r], KVC_MAX_HEAD_DIM, 0.0f);
    widen(to[r], from, view.head_dim, view.dtype);
    for (uint32_t i = 0; i < view.head_dim; ++i)
      to[r][i] *= scale * log2e;
  }
}

void Attend::sweep(const Item &item, const KeyList &list, TileKernel kernel,
                   Sums &sums) const {
  const kvc_cache_view &view = cache.fields();
  float queries[tileRows][KVC_MAX_HEAD_DIM];
  loadQueries(item, queries);
  for (uint32_t r = 0; r < item.rows; ++r) {
    std::fill_n(sums.values[r], KVC_MAX_HEAD_DIM, 0.0f);
    sums.most[r] = lowest;
    sums.weight[r] = 0;
  }
  int64_t firstQuery = int64_t(cache.length(item.sequence)) - args.queries;
  uint64_t from = uint64_t(item.split) * cut.splitKeys;
  uint64_t to = std::min<uint64_t>(from + cut.splitKeys, list.size());
  KeyTile tiles[2];
  RotatedKeys rotated;
  const std::byte *seenKeys[tileKeys], *seenValues[tileKeys];
  kvc_dtype keyType = cache.members() ? KVC_F32 : view.dtype;
  list.load(from, to, tiles[0]);
  for (uint32_t t = 0; tiles[t].count; t = 1 - t) {
    KeyTile &keys = tiles[t], &next = tiles[1 - t];
    list.load(keys.first + uint64_t(tileKeys), to, next);
    if (cache.members())
      list.rotate(keys, rotated);
    int32_t largest = keys.largestPosition();
    uint32_t ahead = next.count;
    for (uint32_t row = 0, end; row < item.rows; row = end) {
      uint32_t query = (item.firstRow + row) / cut.group;
      int64_t position = firstQuery + query;
      // Later queries see what this one sees.
      end = item.rows;
      if (largest > position)
        end = std::min(end, (query + 1) * cut.group - item.firstRow);
      uint32_t seen = 0;
      for (uint32_t i = 0; i < keys.count; ++i)
        if (keys.positions[i] <= position) {
          seenKeys[seen] = keys.keys[i];
          seenValues[seen++] = keys.values[i];
        }
      if (!seen)
        continue;
      kernel({queries, &sums, row, end - row, view.head_dim, seen, keyType,
              view.dtype, seenKeys, seenValues, next.keys, next.values, ahead});
      ahead = 0;
    }
  }
}

void Attend::combine(const Item &item, uint32_t splits, Sums &sums) const {
  uint32_t dim = cache.fields().head_dim;
  for (uint32_t r = 0; r < item.rows; ++r) {
    auto part = [&](uint32_t split) {
      return partOf(item, split) + size_t(r) * (dim + 2);
    };
    float most = lowest;
    for (uint32_t split = 0; split < splits; ++split)
      most = std::max(most, part(split)[dim]);
    std::fill_n(sums.values[r], dim, 0.0f);
    sums.most[r] = most;
    sums.weight[r] = 0;
    for (uint32_t split = 0; split < splits; ++split) {
      const float *values = part(split);
      float fade = std::exp2(values[dim] - most);
      for (uint32_t i = 0; i < dim; ++i)
        sums.values[r][i] += fade * values[i];
      sums.weight[r] += fade * values[dim + 1];
    }
  }
}

void Attend::store(const Item &item, const Sums &sums) const {
  uint32_t dim = cache.fields().head_dim;
  auto size = int64_t(dtypeBytes(args.out_dtype));
  for (uint32_t r = 0; r < item.rows; ++r) {
    uint32_t row = item.firstRow + r, query = row / cut.group;
    uint32_t head = item.head * cut.group + row % cut.group;
    float weight = sums.weight[r], out[KVC_MAX_HEAD_DIM];
    bool blind = weight == 0; // it saw no row
    for (uint32_t i = 0; i < dim; ++i)
      out[i] = blind ? 0.0f : sums.values[r][i] / weight;
    narrow(static_cast<std::byte *>(args.out.data) +
               (item.sequence * args.out.batch_stride +
                head * args.out.head_stride + query * args.out.row_stride) *
                   size,
           out, dim, args.out_dtype);
    if (!args.lse)
      continue;
    float lse = blind ? -std::numeric_limits<float>::infinity()
                      : sums.most[r] + std::log2(weight);
    args.lse[item.sequence * args.lse_batch_stride +
             head * args.lse_head_stride + query] =
        args.lse_base_2 ? lse : float(double(lse) / double(log2e));
  }
}
