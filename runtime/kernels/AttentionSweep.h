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

/// A row of queries and where it sees up to. Negative: nothing.
template <typename E> struct QueryRow {
  const E *q; // d elements
  int32_t position;
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
    Tile tile; // behind the sweep: warps * 16 states and sums of D values
    KeyPlace<E> places[tileKeys];
    typename Products::Weights weights;
  };
  static_assert(sizeof(Tile) >= warps * 16 * (D + 2) * sizeof(float));
  static_assert(sizeof(Shared) <= 48 << 10);

  AttentionSweep(const Simt &simt, Shared &shared, uint32_t d)
      : simt(simt), shared(shared), d(d), lane(simt.thread() % warpSize),
        warp(simt.thread() / warpSize), products(simt, shared.weights) {}

  /// The number in the block of one of this lane's two rows.
  uint32_t row(uint32_t i) const {
    return (byKeys ? 0 : warp * 16) + lane / 4 + i * 8;
  }

  /// Sweeps keys [from, to). `scale` of the logits is not 0. All threads come.
  template <typename Keys>
  void run(const Keys &keys, uint32_t from, uint32_t to,
           const QueryRow<E> (&query)[2], float scale);

  /// Calls sink.row(r, state) and sink.value(r, i, sum, state) for each of the block's
  /// rows and d values, from threads that lie beside one another.
  template <typename Sink> void finish(uint32_t rowsThere, Sink sink);

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
  void loadKeys(bool aligned);
  void loadValues(bool aligned);
  /// A warp's 16 rows at(place), zeros behind their ends and where there is none.
  template <typename At> void load(E (*to)[Tile::pitch], bool aligned, At at);
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
                                        At at) {
  if (aligned) {
#pragma unroll
    for (uint32_t i = 0; i < pieces / 2; ++i) {
      uint32_t piece = i * warpSize + lane, key = warp * 16 + piece / pieces,
               first = piece % pieces * pieceElements;
      const E *from = at(shared.places[key]);
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
    const E *from = at(shared.places[key]);
    to[key][i % D] = from ? loadOne(from, i % D, d) : E();
  }
}

template <typename E, int D, bool byKeys>
void AttentionSweep<E, D, byKeys>::loadValues(bool aligned) {
  load(shared.tile.v, aligned, [](const KeyPlace<E> &p) { return p.v; });
}

template <typename E, int D, bool byKeys>
void AttentionSweep<E, D, byKeys>::loadKeys(bool aligned) {
  if (!simt.any(shared.places[warp * 16 + lane % 16].turn))
    return load(shared.tile.k, aligned,
                [](const KeyPlace<E> &p) { return p.k; });
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
                                       float scale) {
  products.loadQueries(query[0].q, query[1].q, d, scale < 0 ? -1.0f : 1.0f);
  scale = (scale < 0 ? -scale : scale) * log2e;
  const uint32_t own = byKeys ? warp * 16 : 0, column = lane % 4 * 2;
  tell(place(keys, from, to));
  loadKeys(keys.aligned);
  simt.commit();
  loadValues(keys.aligned);
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
      loadKeys(keys.aligned);
    }
    simt.commit();
    softmax(c, scale);
    simt.wait<1>();
    meet(); // values are there
    products.addValues(shared.tile, own, c, o);
    meet(); // values were used
    if (next < to)
      loadValues(keys.aligned);
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
template <typename Sink>
void AttentionSweep<E, D, byKeys>::finish(uint32_t rowsThere, Sink sink) {
  struct Sums {
    float value[D];
    RowState state;
  };
  auto *sums = reinterpret_cast<Sums *>(&shared.tile);
  simt.barrier(); // the tile was used
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    state[i].weight = sumOf(simt, 4, state[i].weight);
    Sums &to = sums[warp * 16 + lane / 4 + uint32_t(i) * 8];
    if (lane % 4 == 0)
      to.state = state[i];
#pragma unroll
    for (int t = 0; t < D / 8; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        to.value[uint32_t(t) * 8 + lane % 4 * 2 + j] = o[t][2 * i + j];
  }
  simt.barrier();
  for (uint32_t r = warp; r < rowsThere; r += warps) {
    RowState all = sums[r].state;
    constexpr uint32_t partners = byKeys ? warps : 1;
    float share[partners];
    if constexpr (byKeys) {
      for (uint32_t w = 1; w < warps; ++w)
        if (sums[w * 16 + r].state.most > all.most)
          all.most = sums[w * 16 + r].state.most;
      all.weight = 0;
#pragma unroll
      for (uint32_t w = 0; w < warps; ++w) {
        share[w] = simt.exp2(sums[w * 16 + r].state.most - all.most);
        all.weight += share[w] * sums[w * 16 + r].state.weight;
      }
    } else {
      share[0] = 1;
    }
    for (uint32_t i = lane; i < d; i += warpSize) {
      float sum = 0;
#pragma unroll
      for (uint32_t w = 0; w < partners; ++w)
        sum += share[w] * sums[w * 16 + r].value[i];
      sink.value(r, i, sum, all);
    }
    if (lane == 0)
      sink.row(r, all);
  }
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONSWEEP_H
