//===- AttentionTile.h - a warp's products with a tile of keys and values -===//
//
// 16 query rows a warp, against keys in the block's memory, of head dimensions up to
// D, padded with zeros. What a lane holds is laid out as the matrix instruction
// m16n8k16 leaves it, for every element type:
//
//   c[t][0..1]  row lane / 4,     columns 8 t + 2 (lane % 4) + {0, 1}
//   c[t][2..3]  row lane / 4 + 8, the same columns
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

/// Neighbouring rows begin four banks apart: eight of them fill all banks.
template <typename E, int D> struct KeyTile {
  static constexpr uint32_t warps = attentionWarps(sizeof(E), D),
                            keys = 16 * warps, pitch = D + 16 / sizeof(E);
  alignas(16) E k[keys][pitch], v[keys][pitch];
};

/// `Keys` of the tile are multiplied at once.
template <typename E, int D, int Keys> class AttentionTile {
public:
  static constexpr int blocks = Keys / 8; // of columns
  using Tile = KeyTile<E, D>;
  /// Dimensions of the queries that registers hold; the rest is in the block's memory.
  static constexpr int held = D <= 128 ? D : 64;
  template <int dims> struct Rest {
    static constexpr uint32_t pitch = dims + 8;
    alignas(16) E q[Tile::keys][pitch];
  };
  struct None {};
  using Memory = Conditional<(D > held), Rest<D - held>, None>;

  AttentionTile(const Simt &simt, Memory &memory)
      : simt(simt), memory(memory), own(simt.thread() / warpSize * 16) {}

  /// The warp's 16 rows, which lie in the place of its 16 values.
  void loadQueries(const Tile &tile, const QueryRow<E> (&)[2], uint32_t,
                   bool negated) {
    sign = negated ? 0x80008000 : 0;
#pragma unroll
    for (int step = 0; step < held / 16; ++step)
      loadStep(&tile.v[own][step * 16], Tile::pitch, &q[step * 4]);
    if constexpr (D > held) {
      constexpr uint32_t pieces = (D - held) / 8; // of a row
      for (uint32_t i = simt.thread() % warpSize; i < 16 * pieces;
           i += warpSize) {
        uint32_t row = own + i / pieces, at = i % pieces * 8;
        *reinterpret_cast<Eight<E> *>(&memory.q[row][at]) =
            *reinterpret_cast<const Eight<E> *>(&tile.v[row][held + at]);
      }
      simt.syncWarp();
    }
  }

  /// c = q k^T, of keys [first, first + Keys) of the tile.
  void scores(const Tile &tile, uint32_t first, float (&c)[blocks][4]) const {
#pragma unroll
    for (int t = 0; t < blocks; ++t) {
      c[t][0] = c[t][1] = c[t][2] = c[t][3] = 0;
      uint32_t b[held / 8];
#pragma unroll
      for (int i = 0; i < held / 32; ++i)
        loadTwoSteps(tile, first + t * 8, i * 32, b + i * 4);
      simt.mma<E, held / 16>(q, b, c[t]);
    }
    if constexpr (D > held) {
#pragma unroll
      for (int dim = held; dim < D; dim += 32) {
        uint32_t a[8];
        loadStep(&memory.q[own][dim - held], Memory::pitch, a);
        loadStep(&memory.q[own][dim - held + 16], Memory::pitch, a + 4);
#pragma unroll
        for (int t = 0; t < blocks; ++t) {
          uint32_t b[4];
          loadTwoSteps(tile, first + t * 8, dim, b);
          simt.mma<E, 2>(a, b, c[t]);
        }
      }
    }
  }

  /// o += p * values
  void addValues(const Tile &tile, uint32_t first, const float (&p)[blocks][4],
                 float (&o)[D / 8][4]) const {
    uint32_t a[Keys / 4];
#pragma unroll
    for (int i = 0; i < Keys / 4; ++i)
      a[i] = narrowPair<E>(p[i / 2][i % 2 * 2], p[i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int t = 0; t < D / 16; ++t) {
      uint32_t left[Keys / 8], right[Keys / 8];
#pragma unroll
      for (int i = 0; i < Keys / 16; ++i) {
        uint32_t r[4];
        simt.transposed(r, &tile.v[first + i * 16][t * 16], Tile::pitch);
        left[2 * i] = r[0], left[2 * i + 1] = r[1];
        right[2 * i] = r[2], right[2 * i + 1] = r[3];
      }
      simt.mma<E, Keys / 16>(a, left, o[2 * t]);
      simt.mma<E, Keys / 16>(a, right, o[2 * t + 1]);
    }
  }

private:
  const Simt &simt;
  Memory &memory;
  const uint32_t own; // the warp's first row
  uint32_t q[held / 4], sign = 0;

  void loadStep(const E *rows, uint32_t pitch, uint32_t *a) const {
    uint32_t r[4];
    simt.stacked(r, rows, pitch);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = r[i] ^ sign;
  }
  void loadTwoSteps(const Tile &tile, uint32_t key, int dim,
                    uint32_t *b) const {
    uint32_t r[4];
    simt.besides(r, &tile.k[key][dim], Tile::pitch);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      b[i] = r[i];
  }
};

template <int D, int Keys> class AttentionTile<float, D, Keys> {
public:
  static constexpr int blocks = Keys / 8;
  using Tile = KeyTile<float, D>;
  struct Memory {
    float p[Tile::warps][16][16 + 1]; // weights of 16 keys
  };

  AttentionTile(const Simt &simt, Memory &memory)
      : simt(simt), p(memory.p[simt.thread() / warpSize]),
        quad(simt.thread() % 4), low(simt.thread() % warpSize / 4) {}

  /// They stay where they are: there is no room for them.
  void loadQueries(const Tile &, const QueryRow<float> (&rows)[2], uint32_t dim,
                   bool negated) {
    q = rows[0].q, qBelow = rows[1].q, d = dim, sign = negated ? -1.0f : 1.0f;
  }

  void scores(const Tile &tile, uint32_t first, float (&c)[blocks][4]) const {
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
                     tile.k[first + t * 8 + quad * 2 + i % 2][j];
    }
  }

  void addValues(const Tile &tile, uint32_t first,
                 const float (&weights)[blocks][4],
                 float (&o)[D / 8][4]) const {
#pragma unroll
    for (int some = 0; some < Keys / 16; ++some) {
      simt.syncWarp(); // the last weights were used
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          p[low + i / 2 * 8][t * 8 + quad * 2 + i % 2] =
              weights[some * 2 + t][i];
      simt.syncWarp();
      for (int key = 0; key < 16; ++key) {
        float above = p[low][key], below = p[low + 8][key];
#pragma unroll
        for (int t = 0; t < D / 8; ++t) {
          const float *v = &tile.v[first + some * 16 + key][t * 8 + quad * 2];
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
