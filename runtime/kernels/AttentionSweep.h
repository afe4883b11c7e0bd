//===- AttentionSweep.h - query rows against a list of keys ---------------===//
//
// Online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) over tiles of keys and
// values, which come to the block's memory while the tile before is multiplied. A
// block has attentionWarps(E, D) warps, and as a tile 16 keys and values for each.
// Where there are many query rows every warp has 16 of its own, and all keys of the
// tile; where there are few (`byKeys`: at most 16) all warps have the same rows and
// keys of their own, wait for nobody, and are added up at the end.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONSWEEP_H
#define KVC_RUNTIME_KERNELS_ATTENTIONSWEEP_H

#include "runtime/kernels/AttentionTile.h"

namespace kvc::gpu {

/// Where a key of a list lies. `position`: queries from that one on see it.
template <typename E> struct KeyPlace {
  const E *k, *v; // rows of d elements; null: there is no key
  int32_t position;
  float norm;
  /// Null: k is as it is. Else the key is norm * RoPE(k), by d / 2 cosines and sines.
  const float *turn;
};

/// The block's list of keys, as a sweep asks for it:
///   KeyPlace<E> place(uint32_t i, bool withPosition) const;
///   uint32_t whole; // keys in front of it are seen by every row of the block
///   bool aligned;   // rows begin and end at multiples of 16 bytes
template <typename E, int D, bool byKeys> class AttentionSweep {
public:
  using Tile = KeyTile<E, D>;
  static constexpr uint32_t warps = Tile::warps, tileKeys = Tile::keys,
                            rows = attentionRows(sizeof(E), D, byKeys);
  static constexpr int seenKeys = byKeys ? 16 : int(tileKeys);
  using Products = AttentionTile<E, D, seenKeys>;

  struct alignas(16) Shared {
    Tile tile; // behind the sweep: the rows' sums
    KeyPlace<E> places[tileKeys];
    union {
      const E *q;
      RowState state; // behind the sweep
    } rows[warps * 16];
    typename Products::Memory memory;
  };
  static_assert(sizeof(Shared) <= 48 << 10);

  AttentionSweep(const Simt &simt, Shared &shared, uint32_t d)
      : simt(simt), shared(shared), d(d), lane(simt.thread() % warpSize),
        warp(simt.thread() / warpSize), products(simt, shared.memory) {}

  /// The number in the block of one of this lane's two rows.
  uint32_t row(uint32_t i) const {
    return (byKeys ? 0 : warp * 16) + lane / 4 + i * 8;
  }

  /// Sweeps keys [from, to). `rowsAligned`: queries begin and end at multiples of 16
  /// bytes. `scale` of the logits is not 0. All threads come.
  template <typename Keys>
  void run(const Keys &keys, uint32_t from, uint32_t to,
           const QueryRow<E> (&query)[2], bool rowsAligned, float scale);

  /// Stores the block's rows, which are `rowsThere` of a KV head from `firstRow` on, or,
  /// where keys are split, what this split has of them. Output: AttentionState.h.
  template <typename Output>
  void finish(const Output &out, uint32_t firstRow, uint32_t rowsThere,
              bool isPart, uint32_t split);

private:
  const Simt &simt;
  Shared &shared;
  const uint32_t d, lane, warp;
  Products products;
  float o[D / 8][4] = {};
  RowState state[2] = {{lowest, 0}, {lowest, 0}};

  static constexpr uint32_t pieces = D * sizeof(E) / 16, // of a row
      pieceElements = 16 / sizeof(E);

  void meet() const {
    if constexpr (byKeys)
      simt.syncWarp();
    else
      simt.barrier();
  }
  /// True where all 16 keys of the warp are there, of the tile from `first` on.
  bool has(uint32_t first, uint32_t to) const {
    return first + warp * 16 + 16 <= to;
  }
  template <typename Keys>
  KeyPlace<E> place(const Keys &keys, uint32_t first, uint32_t to) const {
    uint32_t i = first + warp * 16 + lane % 16;
    if (i >= to)
      return {};
    return keys.place(i, first + tileKeys > keys.whole);
  }
  /// A warp's 16 keys.
  void tell(const KeyPlace<E> &place) {
    simt.syncWarp(); // the last places were used
    if (lane < 16)
      shared.places[warp * 16 + lane] = place;
    simt.syncWarp();
  }
  void loadKeys(bool aligned, bool full);
  void loadValues(bool aligned, bool full);
  /// A warp's 16 rows at(number in the tile), zeros behind their ends and where there is
  /// none; `full`: there are all.
  template <typename At>
  void load(E (*to)[Tile::pitch], bool aligned, bool full, At at);
  static void clear(E *to) {
    struct alignas(16) Piece {
      E at[pieceElements];
    };
    *reinterpret_cast<Piece *>(to) = {};
  }
  void softmax(float (&c)[Products::blocks][4], float scale);
};

template <typename E, int D, bool byKeys>
template <typename At>
void AttentionSweep<E, D, byKeys>::load(E (*to)[Tile::pitch], bool aligned,
                                        bool full, At at) {
  if constexpr (pieces <= warpSize)
    if (aligned && full && d == D) { // as nearly always: nothing to look at
      constexpr uint32_t step = warpSize / pieces;
      uint32_t first = lane % pieces * pieceElements;
#pragma unroll
      for (uint32_t i = 0; i < 16; i += step) {
        uint32_t key = warp * 16 + lane / pieces + i;
        simt.copy(&to[key][first], at(key) + first);
      }
      return;
    }
  if (aligned) {
#pragma unroll 1
    for (uint32_t i = lane; i < 16 * pieces; i += warpSize) {
      uint32_t key = warp * 16 + i / pieces, first = i % pieces * pieceElements;
      const E *from = at(key);
      if (from && first < d)
        simt.copy(&to[key][first], from + first);
      else
        clear(&to[key][first]);
    }
    return;
  }
#pragma unroll 1
  for (uint32_t i = lane; i < 16 * D; i += warpSize) {
    uint32_t key = warp * 16 + i / D;
    const E *from = at(key);
    to[key][i % D] = from ? loadOne(from, i % D, d) : E();
  }
}

template <typename E, int D, bool byKeys>
void AttentionSweep<E, D, byKeys>::loadValues(bool aligned, bool full) {
  load(shared.tile.v, aligned, full,
       [&](uint32_t key) { return shared.places[key].v; });
}

template <typename E, int D, bool byKeys>
void AttentionSweep<E, D, byKeys>::loadKeys(bool aligned, bool full) {
  if (!simt.any(shared.places[warp * 16 + lane % 16].turn))
    return load(shared.tile.k, aligned, full,
                [&](uint32_t key) { return shared.places[key].k; });
  uint32_t half = d / 2;
#pragma unroll 1
  for (uint32_t i = lane; i < 16 * D; i += warpSize) {
    const KeyPlace<E> &place = shared.places[warp * 16 + i / D];
    uint32_t j = i % D, pair = j < half ? j : j - half;
    float value = 0;
    if (place.k && j < d) {
      value = widen(loaded(place.k + j));
      if (place.turn) {
        float x = widen(loaded(place.k + pair)),
              y = widen(loaded(place.k + pair + half)),
              cosine = loaded(place.turn + 2 * pair),
              sine = loaded(place.turn + 2 * pair + 1);
        value = place.norm *
                (j < half ? x * cosine - y * sine : y * cosine + x * sine);
      }
    }
    shared.tile.k[warp * 16 + i / D][j] = narrow<E>(value);
  }
}

template <typename E, int D, bool byKeys>
template <typename Keys>
void AttentionSweep<E, D, byKeys>::run(const Keys &keys, uint32_t from,
                                       uint32_t to,
                                       const QueryRow<E> (&query)[2],
                                       bool rowsAligned, float scale) {
  const uint32_t own = byKeys ? warp * 16 : 0, column = lane % 4 * 2;
  if (lane % 4 == 0)
    for (uint32_t i = 0; i < 2; ++i)
      shared.rows[warp * 16 + lane / 4 + i * 8].q = query[i].q;
  tell(place(keys, from, to));
  loadKeys(keys.aligned, has(from, to));
  if constexpr (sizeof(E) == 2) // in the place of values, which come behind it
    load(shared.tile.v, rowsAligned, /*full=*/true,
         [&](uint32_t row) { return shared.rows[row].q; });
  simt.commit();
  simt.wait<0>();
  simt.syncWarp();
  products.loadQueries(shared.tile, query, d, scale < 0);
  scale = (scale < 0 ? -scale : scale) * log2e;
  simt.syncWarp();
  loadValues(keys.aligned, has(from, to));
  simt.commit();
  for (uint32_t first = from; first < to; first += tileKeys) {
    uint32_t next = first + tileKeys;
    KeyPlace<E> nextPlace = place(keys, next, to);
    simt.wait<1>();
    meet(); // keys are there
    float c[Products::blocks][4];
    products.scores(shared.tile, own, c);
    if (next > to || next > keys.whole) {
#pragma unroll
      for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          uint32_t key = own + uint32_t(t) * 8 + column + i % 2;
          bool seen = first + key < to &&
                      (first + key < keys.whole ||
                       shared.places[key].position <= query[i / 2].position);
          c[t][i] = seen ? c[t][i] : -__builtin_inff();
        }
    }
    meet(); // keys and places were used
    if (next < to) {
      tell(nextPlace);
      loadKeys(keys.aligned, has(next, to));
    }
    simt.commit();
    softmax(c, scale);
    simt.wait<1>();
    meet(); // values are there
    products.addValues(shared.tile, own, c, o);
    meet(); // values were used
    if (next < to)
      loadValues(keys.aligned, has(next, to));
    simt.commit();
  }
}

template <typename E, int D, bool byKeys>
void AttentionSweep<E, D, byKeys>::softmax(float (&c)[Products::blocks][4],
                                           float scale) {
  float fade[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float top = c[0][2 * i];
#pragma unroll
    for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        top = c[t][2 * i + j] > top ? c[t][2 * i + j] : top;
    top = mostOf(simt, 4, top) * scale;
    top = top > state[i].most ? top : state[i].most;
    fade[i] = simt.exp2(state[i].most - top);
    state[i].most = top;
    float sum = 0;
#pragma unroll
    for (int t = 0; t < Products::blocks; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float &x = c[t][2 * i + j];
        x = simt.exp2(__builtin_fmaf(x, scale, -top));
        sum += x;
      }
    state[i].weight = state[i].weight * fade[i] + sum; // of this lane's columns
  }
  if (!simt.any(fade[0] != 1 || fade[1] != 1))
    return; // nothing larger has come, as nearly always
#pragma unroll
  for (int t = 0; t < D / 8; ++t)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      o[t][i] *= fade[i / 2];
}

template <typename E, int D, bool byKeys>
template <typename Output>
void AttentionSweep<E, D, byKeys>::finish(const Output &out, uint32_t firstRow,
                                          uint32_t rowsThere, bool isPart,
                                          uint32_t split) {
  // Eight rows begin eight banks apart: stores of two floats do not conflict.
  constexpr uint32_t pitch = D + 8;
  static_assert(sizeof(Tile) >= warps * 16 * pitch * sizeof(float));
  auto *sums = reinterpret_cast<float *>(&shared.tile);
  simt.barrier(); // the tile was used
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    state[i].weight = sumOf(simt, 4, state[i].weight);
    uint32_t to = warp * 16 + lane / 4 + uint32_t(i) * 8;
    if (lane % 4 == 0)
      shared.rows[to].state = state[i];
#pragma unroll
    for (int t = 0; t < D / 8; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        sums[to * pitch + uint32_t(t) * 8 + lane % 4 * 2 + j] = o[t][2 * i + j];
  }
  simt.barrier();
  for (uint32_t r = warp; r < rowsThere; r += warps) {
    RowState all = shared.rows[r].state;
    constexpr uint32_t partners = byKeys ? warps : 1;
    float share[partners];
    if constexpr (byKeys) {
      for (uint32_t w = 1; w < warps; ++w)
        if (shared.rows[w * 16 + r].state.most > all.most)
          all.most = shared.rows[w * 16 + r].state.most;
      all.weight = 0;
#pragma unroll
      for (uint32_t w = 0; w < warps; ++w) {
        const RowState &one = shared.rows[w * 16 + r].state;
        share[w] = simt.exp2(one.most - all.most);
        all.weight += share[w] * one.weight;
      }
    } else {
      share[0] = 1;
    }
#pragma unroll
    for (uint32_t c = 0; c < D / 32; ++c) {
      uint32_t i = lane + c * 32;
      float sum = 0;
#pragma unroll
      for (uint32_t w = 0; w < partners; ++w)
        sum += share[w] * sums[(w * 16 + r) * pitch + i];
      if (i >= d)
        continue;
      if (isPart)
        store(out.part(firstRow + r, split) + i, sum);
      else
        out.store(firstRow + r, i, all.mean(sum));
    }
    if (lane != 0)
      continue;
    if (isPart) {
      float *part = out.part(firstRow + r, split);
      store(part + d, all.most);
      store(part + d + 1, all.weight);
    } else {
      out.storeLse(firstRow + r, all.most + simt.log2(all.weight));
    }
  }
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSWEEP_H
