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
  struct Weights {};                      // needs no memory
  using Tile = KeyTile<E, D>;

  AttentionTile(const Simt &simt, Weights &) : simt(simt) {}

  /// The rows of this lane, d elements each, times `sign`.
  void loadQueries(const E *row, const E *rowBelow, uint32_t d, float sign) {
    uint32_t quad = simt.thread() % 4;
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const E *from = part % 2 ? rowBelow : row;
        uint32_t i = uint32_t(step) * 16 + part / 2 * 8 + quad * 2;
        q[step * 4 + part] =
            narrowPair<E>(sign * widen(loadOne(from, i, d)),
                          sign * widen(loadOne(from, i + 1, d)));
      }
  }

  /// c = q k^T, of keys [first, first + Keys) of the tile.
  void scores(const Tile &tile, uint32_t first, float (&c)[blocks][4]) const {
#pragma unroll
    for (int t = 0; t < blocks; ++t) {
      uint32_t b[D / 8];
#pragma unroll
      for (int i = 0; i < D / 32; ++i) {
        uint32_t r[4];
        simt.besides(r, &tile.k[first + t * 8][i * 32], Tile::pitch);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          b[i * 4 + j] = r[j];
      }
      c[t][0] = c[t][1] = c[t][2] = c[t][3] = 0;
      simt.mma<E, D / 16>(q, b, c[t]);
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
  uint32_t q[D / 4];
};

template <int D, int Keys> class AttentionTile<float, D, Keys> {
public:
  static constexpr int blocks = Keys / 8;
  using Tile = KeyTile<float, D>;
  struct Weights { // of 16 keys
    float p[Tile::warps][16][16 + 1];
  };

  AttentionTile(const Simt &simt, Weights &weights)
      : simt(simt), p(weights.p[simt.thread() / warpSize]),
        quad(simt.thread() % 4), low(simt.thread() % warpSize / 4) {}

  void loadQueries(const float *row, const float *rowBelow, uint32_t dim,
                   float ofAll) {
    q = row, qBelow = rowBelow, d = dim, sign = ofAll;
  }

  void scores(const Tile &tile, uint32_t first, float (&c)[blocks][4]) const {
#pragma unroll
    for (int t = 0; t < blocks; ++t)
      c[t][0] = c[t][1] = c[t][2] = c[t][3] = 0;
    for (uint32_t j = 0; j < d; ++j) {
      float above = sign * q[j], below = sign * qBelow[j];
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
