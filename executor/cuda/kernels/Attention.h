//===- Attention.h - one sweep for prefill, chunks and decoding -----------===//
//
// Online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) over tiles of
// keys in shared memory: first the cache, ragged by head, then the tokens
// themselves. The query heads of a group share the tiles. Where there are few
// rows the keys are split between blocks and the parts combined.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_ATTENTION_H
#define KVC_EXECUTOR_CUDA_KERNELS_ATTENTION_H

#include "executor/cuda/kernels/Args.h"
#include "executor/cuda/kernels/AttentionTile.h"

namespace kvc::gpu {

/// Below every logit; finite, so that differences are no NaN.
constexpr float lowest = -3e38f;

/// What the queries of one KV head see, as one list: `past` cached keys, then
/// the tokens' own.
template <typename E> class KeyList {
public:
  KeyList(const AttendArgs &a, uint32_t head) : a(a), head(head) {
    const CacheArgs &c = a.cache;
    rows = c.counts ? uint32_t(c.counts[head]) : 0;
    members = c.merged ? uint32_t(c.memberCounts[head]) : 0;
    past = (c.merged ? members : rows) + c.extra;
  }
  uint32_t past;

  /// Dimensions [first, first + 8) of key and value i.
  void load(uint32_t i, uint32_t first, Eight<E> &k, Eight<E> &v) const {
    const CacheArgs &c = a.cache;
    bool cached = i < past, member = i < members;
    uint32_t entry = member ? uint32_t(c.memberOffsets[head]) + i : 0;
    uint64_t row = uint64_t(head) * a.tokens + (i - past);
    if (member)
      row = uint32_t(c.offsets[head]) + uint32_t(c.memberRows[entry]);
    else if (cached)
      row = uint32_t(c.offsets[head]) + rows + i - (c.merged ? members : rows);
    const E *key = static_cast<const E *>(cached ? c.k : a.k) + row * a.d;
    const E *value = static_cast<const E *>(cached ? c.v : a.v) + row * a.d;
    v = loadEight(value, first, a.d);
    k = loadEight(key, first, a.d);
    if (!member)
      return;
    const float *turn =
        c.rope + uint64_t(uint32_t(c.memberPositions[entry])) * a.d;
    float norm = c.memberNorms[entry];
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j)
      if (first + j < a.d)
        k.at[j] = narrow<E>(norm * rotated(key, turn, first + j));
  }

private:
  const AttendArgs &a;
  uint32_t head, rows, members;

  float rotated(const E *key, const float *turn, uint32_t i) const {
    uint32_t half = a.d / 2, j = i % half;
    float x = widen(key[j]), y = widen(key[j + half]);
    float c = turn[2 * j], s = turn[2 * j + 1];
    return i < half ? x * c - y * s : y * c + x * s;
  }
};

template <typename E, int D>
void attend(const Simt &simt, const AttendArgs &a) {
  using Tile = AttentionTile<E, D>;
  KVC_SHARED(typename Tile::Shared, shared, simt);
  Tile tile(simt, shared);
  uint32_t head = simt.blockY(), split = simt.blockZ();
  uint32_t group = a.qHeads / a.kvHeads, rows = a.tokens * group;
  // The last rows see most: they go first, or they would be waited for.
  uint32_t lastBlock = (rows - 1) / attentionRows;
  uint32_t firstRow = (lastBlock - simt.blockX()) * attentionRows;
  uint32_t lane = simt.thread() % warpSize, quad = lane % 4;
  uint32_t own = firstRow + simt.thread() / warpSize * 16 + lane / 4;
  KeyList<E> list(a, head);

  // Rows behind the last one repeat it and are not stored.
  uint32_t query[2];
  uint64_t at[2]; // [Hq, T]
  for (uint32_t i = 0; i < 2; ++i) {
    uint32_t row = own + i * 8 < rows ? own + i * 8 : rows - 1;
    query[i] = row / group;
    at[i] = uint64_t(head * group + row % group) * a.tokens + query[i];
  }
  const E *q = static_cast<const E *>(a.q);
  tile.loadQueries(q + at[0] * a.d, q + at[1] * a.d, a.d);

  // All that the block's last row sees, and this split's share of it.
  uint32_t lastRow = firstRow + attentionRows - 1;
  lastRow = lastRow < rows ? lastRow : rows - 1;
  uint32_t end = list.past + lastRow / group + 1;
  uint32_t tiles = (end + Tile::keys - 1) / Tile::keys;
  uint32_t share = (tiles + a.splits - 1) / a.splits * Tile::keys;
  uint32_t from = split * share, to = from + share < end ? from + share : end;

  float o[D / 8][4] = {}, most[2] = {lowest, lowest}, weight[2] = {0, 0};
  float scale = a.scale * log2e;
  for (uint32_t first = from; first < to; first += Tile::keys) {
    simt.barrier(); // the last tile has been used
    for (uint32_t i = simt.thread(); i < Tile::keys * (D / 8);
         i += attentionThreads) {
      uint32_t key = i / (D / 8), dim = i % (D / 8) * 8;
      Eight<E> k = {}, v = {};
      if (first + key < to)
        list.load(first + key, dim, k, v);
      shared.store(key, dim, k, v);
    }
    simt.barrier();

    float c[Tile::keys / 8][4];
    tile.scores(c);
    float top[2] = {most[0], most[1]};
#pragma unroll
    for (int t = 0; t < Tile::keys / 8; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t key = first + uint32_t(t) * 8 + quad * 2 + i % 2;
        bool seen = key < to && key <= list.past + query[i / 2];
        c[t][i] = seen ? c[t][i] * scale : -__builtin_inff();
        top[i / 2] = c[t][i] > top[i / 2] ? c[t][i] : top[i / 2];
      }
    float sum[2] = {0, 0}, fade[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      top[i] = mostOf(simt, 4, top[i]);
      fade[i] = simt.exp2(most[i] - top[i]);
      most[i] = top[i];
    }
#pragma unroll
    for (int t = 0; t < Tile::keys / 8; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        c[t][i] = simt.exp2(c[t][i] - top[i / 2]);
        sum[i / 2] += c[t][i];
      }
#pragma unroll
    for (int i = 0; i < 2; ++i)
      weight[i] = weight[i] * fade[i] + sum[i]; // of this lane's columns
#pragma unroll
    for (int t = 0; t < D / 8; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        o[t][i] *= fade[i / 2];
    tile.addValues(c, o);
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    weight[i] = sumOf(simt, 4, weight[i]);
    if (own + uint32_t(i) * 8 >= rows)
      continue; // behind the last row; nobody waits for anybody any more
    uint64_t outRow = uint64_t(query[i]) * a.qHeads + at[i] / a.tokens;
    float *part = nullptr;
    if (a.splits > 1) {
      part =
          a.parts + (uint64_t(split) * a.qHeads * a.tokens + at[i]) * (a.d + 2);
      if (quad == 0) {
        part[a.d] = most[i];
        part[a.d + 1] = weight[i];
      }
    } else if (quad == 0) {
      a.lse[at[i]] = (most[i] + simt.log2(weight[i])) * ln2;
    }
#pragma unroll
    for (int t = 0; t < D / 8; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t dim = uint32_t(t) * 8 + quad * 2 + j;
        if (dim >= a.d)
          continue;
        if (part)
          part[dim] = o[t][i * 2 + j];
        else
          static_cast<E *>(a.out)[outRow * a.d + dim] =
              narrow<E>(o[t][i * 2 + j] / weight[i]);
      }
  }
}

template <typename E> void combine(const Simt &simt, const CombineArgs &a) {
  uint64_t rows = uint64_t(a.qHeads) * a.tokens;
  uint64_t row = uint64_t(simt.blockX()) * attentionWarps +
                 simt.thread() / warpSize; // [Hq, T]
  if (row >= rows)
    return;
  uint32_t lane = simt.thread() % warpSize;
  auto part = [&](uint32_t split) {
    return a.parts + (split * rows + row) * (a.d + 2);
  };
  float most = lowest, weight = 0;
  for (uint32_t s = 0; s < a.splits; ++s)
    most = part(s)[a.d] > most ? part(s)[a.d] : most;
  for (uint32_t s = 0; s < a.splits; ++s)
    weight += part(s)[a.d + 1] * simt.exp2(part(s)[a.d] - most);
  uint64_t outRow = row % a.tokens * a.qHeads + row / a.tokens;
  for (uint32_t i = lane; i < a.d; i += warpSize) {
    float sum = 0;
    for (uint32_t s = 0; s < a.splits; ++s)
      sum += part(s)[i] * simt.exp2(part(s)[a.d] - most);
    static_cast<E *>(a.out)[outRow * a.d + i] = narrow<E>(sum / weight);
  }
  if (lane == 0)
    a.lse[row] = (most + simt.log2(weight)) * ln2;
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_ATTENTION_H
