//===- AttentionTile.h - a warp's products with a tile of keys and values -===//
//
// One or two tiles of 16 query rows a warp, against keys in the block's memory, of head
// dimensions up to D, padded with zeros. What a lane holds is laid out as the matrix
// instruction m16n8k16 leaves it, for every element type:
//
//   c[tile][t][0..1]  row lane / 4 of the tile, columns 8 t + 2 (lane % 4) + {0, 1}
//   c[tile][t][2..3]  row lane / 4 + 8,         the same columns
//
// f16 and bf16 go through that instruction, f32 is multiplied and added.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ATTENTIONTILE_H
#define KVC_RUNTIME_KERNELS_ATTENTIONTILE_H

#include "runtime/kernels/AttentionState.h"
#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

/// A row of queries and where it sees up to. Negative: nothing.
template <typename E> struct QueryRow {
  const E *q; // d elements
  int32_t position;
};

/// Rows in the block's memory. Neighbours begin four banks apart: eight of them fill all
/// banks.
template <typename E, int D> struct PaddedRows {
  static constexpr uint32_t pitch = D + 16 / sizeof(E);
  E (*rows)[pitch];

  E *at(uint32_t row, uint32_t column) const { return &rows[row][column]; }
  /// A column, from a row downwards.
  struct Walk {
    E *at;
    E *down(uint32_t rows) const { return at + rows * pitch; }
  };
  Walk walk(uint32_t row, uint32_t column) const { return {at(row, column)}; }
  PaddedRows from(uint32_t row) const { return {rows + row}; }
};

template <typename E, int D, int Keys, int Stages> struct KeyTile {
  using Rows = PaddedRows<E, D>;
  static constexpr uint32_t keys = Keys, count = 2 * keys * Stages;
  // Of each stage the keys', then the values'.
  alignas(16) E rows[count][Rows::pitch];
  Rows k(uint32_t stage) { return {rows + stage * 2 * keys}; }
  Rows v(uint32_t stage) { return k(stage).from(keys); }
};

/// Of a tile, `Keys` are multiplied at once, by `Tiles` tiles of rows of each of `Warps`
/// warps.
template <typename E, int D, int Keys, int Warps, int Tiles>
class AttentionTile {
public:
  static constexpr int blocks = Keys / 8; // of columns
  static constexpr uint32_t pitch =
      D + 16 / sizeof(E); // of rows of keys and queries
  /// Dimensions of the queries that registers hold; the rest is in the block's memory.
  /// Of more, the accumulators of two tiles and 128 dimensions spill.
  static constexpr int held = D * Tiles <= 128 ? D : Tiles == 2 ? 48 : 64;
  template <int dims> struct Rest {
    static constexpr uint32_t pitch = dims + 8;
    alignas(16) E q[Warps * Tiles * 16][pitch];
  };
  struct None {};
  using Memory = Conditional<(D > held), Rest<D - held>, None>;

  AttentionTile(const Simt &simt, Memory &memory)
      : simt(simt), memory(memory),
        own(simt.thread() / warpSize * (Tiles * 16)) {}

  /// The 16 rows of a tile of the warp, from the block's memory. `negated`: times -1.
  void loadQueries(int tile, const E (*rows)[pitch], const QueryRow<E> *,
                   uint32_t, bool negated) {
    uint32_t sign = negated ? 0x80008000 : 0;
#pragma unroll
    for (int step = 0; step < held / 16; ++step) {
      simt.stacked(&q[tile][step * 4], rows[0] + step * 16, pitch);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        q[tile][step * 4 + i] ^= sign;
    }
    if constexpr (D > held) {
      constexpr uint32_t pairs = (D - held) / 2; // of a row
      for (uint32_t i = simt.thread() % warpSize; i < 16 * pairs;
           i += warpSize) {
        uint32_t row = i / pairs, at = i % pairs * 2;
        auto two = *reinterpret_cast<const uint32_t *>(&rows[row][held + at]);
        *reinterpret_cast<uint32_t *>(
            &memory.q[own + uint32_t(tile) * 16 + row][at]) = two ^ sign;
      }
      simt.syncWarp();
    }
  }

  /// c = q k^T
  void scores(const E (*keys)[pitch], float (&c)[Tiles][blocks][4]) const {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int t = 0; t < blocks; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          c[tile][t][i] = 0;
#pragma unroll
    for (int step = 0; step < held / 16; ++step) {
      uint32_t a[Tiles][4];
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[tile][i] = q[tile][step * 4 + i];
      addStep(keys, step, a, c);
    }
    if constexpr (D > held) {
#pragma unroll
      for (int step = held / 16; step < D / 16; ++step) {
        uint32_t a[Tiles][4];
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile)
          simt.stacked(a[tile],
                       memory.q[own + uint32_t(tile) * 16] + (step * 16 - held),
                       Memory::pitch);
        addStep(keys, step, a, c);
      }
    }
  }

  /// What values are multiplied by, in half the registers.
  struct Weights {
    uint32_t a[Tiles][Keys / 4];
  };
  Weights weights(const float (&c)[Tiles][blocks][4]) const {
    Weights narrow;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < Keys / 4; ++i) {
        const float *two = &c[tile][i / 2][i % 2 * 2];
        narrow.a[tile][i] = narrowPair<E>(two[0], two[1]);
      }
    return narrow;
  }

  /// o += weights * values
  void addValues(const E (*values)[pitch], const Weights &weights,
                 float (&o)[Tiles][D / 8][4]) const {
#pragma unroll
    for (int t = 0; t < D / 16; ++t) {
      uint32_t left[Keys / 8], right[Keys / 8];
#pragma unroll
      for (int i = 0; i < Keys / 16; ++i) {
        uint32_t r[4];
        simt.transposed(r, values[i * 16] + t * 16, pitch);
        left[2 * i] = r[0], left[2 * i + 1] = r[1];
        right[2 * i] = r[2], right[2 * i + 1] = r[3];
      }
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        simt.mma<E, Keys / 16>(weights.a[tile], left, o[tile][2 * t]);
        simt.mma<E, Keys / 16>(weights.a[tile], right, o[tile][2 * t + 1]);
      }
    }
  }

private:
  const Simt &simt;
  Memory &memory;
  const uint32_t own; // the warp's first row
  uint32_t q[Tiles][held / 4];

  /// c += a k^T, of 16 dimensions.
  void addStep(const E (*keys)[pitch], int step, const uint32_t (&a)[Tiles][4],
               float (&c)[Tiles][blocks][4]) const {
#pragma unroll
    for (int t = 0; t < blocks; t += 2) {
      uint32_t b[4];
      simt.columns(b, keys[t * 8] + step * 16, pitch);
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        simt.mma<E, 1>(a[tile], b, c[tile][t]);
        simt.mma<E, 1>(a[tile], b + 2, c[tile][t + 1]);
      }
    }
  }
};

template <int D, int Keys, int Warps>
class AttentionTile<float, D, Keys, Warps, 1> {
public:
  static constexpr int blocks = Keys / 8;
  static constexpr uint32_t pitch = D + 4;
  struct Memory {
    float p[Warps][16][16 + 1]; // weights of 16 keys
  };

  AttentionTile(const Simt &simt, Memory &memory)
      : simt(simt), p(memory.p[simt.thread() / warpSize]),
        quad(simt.thread() % 4), low(simt.thread() % warpSize / 4) {}

  /// They stay where they are: there is no room for them.
  void loadQueries(int, const float (*)[pitch], const QueryRow<float> *rows,
                   uint32_t dim, bool negated) {
    q = rows[0].q, qBelow = rows[1].q, d = dim, sign = negated ? -1.0f : 1.0f;
  }

  void scores(const float (*keys)[pitch], float (&all)[1][blocks][4]) const {
    auto &c = all[0];
#pragma unroll
    for (int t = 0; t < blocks; ++t)
      c[t][0] = c[t][1] = c[t][2] = c[t][3] = 0;
    for (uint32_t j = 0; j < d; ++j) {
      float above = sign * loaded(q + j), below = sign * loaded(qBelow + j);
#pragma unroll
      for (int t = 0; t < blocks; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          c[t][i] += (i / 2 ? below : above) *
                     keys[uint32_t(t) * 8 + quad * 2 + uint32_t(i) % 2][j];
    }
  }

  using Weights = float[1][blocks][4];
  const Weights &weights(const Weights &c) const { return c; }

  void addValues(const float (*values)[pitch], const Weights &weights,
                 float (&all)[1][D / 8][4]) const {
    auto &o = all[0];
#pragma unroll
    for (int some = 0; some < Keys / 16; ++some) {
      simt.syncWarp(); // the last weights were used
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          p[low + i / 2 * 8][t * 8 + quad * 2 + i % 2] =
              weights[0][some * 2 + t][i];
      simt.syncWarp();
      for (int key = 0; key < 16; ++key) {
        float above = p[low][key], below = p[low + 8][key];
#pragma unroll
        for (int t = 0; t < D / 8; ++t) {
          const float *v = values[some * 16 + key] + t * 8 + quad * 2;
          o[t][0] += above * v[0];
          o[t][1] += above * v[1];
          o[t][2] += below * v[0];
          o[t][3] += below * v[1];
        }
      }
    }
  }

private:
  const Simt &simt;
  float (&p)[16][16 + 1];
  uint32_t quad, low, d = 0;
  float sign = 1;
  const float *q = nullptr, *qBelow = nullptr;
};

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ATTENTIONTILE_H
