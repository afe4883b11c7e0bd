//===- AttentionTile.h - a warp's products with a tile of keys and values -===//
//
// 16 query rows a warp. What a lane holds is laid out as the matrix
// instruction m16n8k16 leaves it, for every element type:
//
//   c[t][0..1]  row lane / 4,     columns 8 t + 2 (lane % 4) + {0, 1}
//   c[t][2..3]  row lane / 4 + 8, the same columns
//
// f16 and bf16 go through that instruction, f32 is multiplied and added.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_ATTENTIONTILE_H
#define KVC_EXECUTOR_CUDA_KERNELS_ATTENTIONTILE_H

#include "executor/cuda/kernels/Args.h"
#include "executor/cuda/kernels/Simt.h"

namespace kvc::gpu {

/// A tile of keys and values, of head dimensions up to D, padded with zeros.
/// Neighbouring rows begin four banks apart: the reads below do not conflict.
template <typename E, int D, int Keys> struct KeyTile {
  static constexpr int pitch = D + 16 / int(sizeof(E));
  E k[Keys][pitch], v[Keys][pitch];

  void store(uint32_t key, uint32_t first, const Eight<E> &keyPart,
             const Eight<E> &valuePart) {
    *reinterpret_cast<Eight<E> *>(&k[key][first]) = keyPart;
    *reinterpret_cast<Eight<E> *>(&v[key][first]) = valuePart;
  }
};

template <typename E, int D> class AttentionTile {
public:
  static constexpr int keys = 64; // of a tile
  struct alignas(16) Shared : KeyTile<E, D, keys> {};

  AttentionTile(const Simt &simt, Shared &shared)
      : simt(simt), shared(shared), quad(simt.thread() % 4),
        low(simt.thread() % warpSize / 4) {}

  /// The rows of this lane, d elements each.
  void loadQueries(const E *row, const E *rowBelow, uint32_t d) {
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const E *from = part % 2 ? rowBelow : row;
        uint32_t i = uint32_t(step) * 16 + part / 2 * 8 + quad * 2;
        q[step * 4 + part] = pack(loadOne(from, i, d), loadOne(from, i + 1, d));
      }
  }

  void scores(float (&c)[keys / 8][4]) const {
#pragma unroll
    for (int t = 0; t < keys / 8; ++t) {
      uint32_t b[D / 8];
#pragma unroll
      for (int i = 0; i < D / 8; ++i)
        b[i] = pair(&shared.k[t * 8 + low][i * 8 + quad * 2]);
      c[t][0] = c[t][1] = c[t][2] = c[t][3] = 0;
      simt.mma<E, D / 16>(q, b, c[t]);
    }
  }

  /// o += p * values
  void addValues(const float (&p)[keys / 8][4], float (&o)[D / 8][4]) const {
    uint32_t a[keys / 4];
#pragma unroll
    for (int i = 0; i < keys / 4; ++i) {
      const float *two = &p[i / 2][i % 2 * 2];
      a[i] = pack(narrow<E>(two[0]), narrow<E>(two[1]));
    }
#pragma unroll
    for (int t = 0; t < D / 8; ++t) {
      uint32_t b[keys / 8];
#pragma unroll
      for (int i = 0; i < keys / 8; ++i) {
        int key = i * 8 + int(quad) * 2;
        b[i] = pack(shared.v[key][t * 8 + low], shared.v[key + 1][t * 8 + low]);
      }
      simt.mma<E, keys / 16>(a, b, o[t]);
    }
  }

private:
  const Simt &simt;
  Shared &shared;
  uint32_t quad, low;
  uint32_t q[D / 4];

  static uint32_t pair(const E *two) {
    return *reinterpret_cast<const uint32_t *>(two);
  }
};

template <int D> class AttentionTile<float, D> {
public:
  static constexpr int keys = 32;
  struct alignas(16) Shared : KeyTile<float, D, keys> {
    float p[attentionWarps][16][keys + 1]; // weights
  };

  AttentionTile(const Simt &simt, Shared &shared)
      : simt(simt), shared(shared), quad(simt.thread() % 4),
        low(simt.thread() % warpSize / 4), warp(simt.thread() / warpSize) {}

  void loadQueries(const float *row, const float *rowBelow, uint32_t dim) {
    q = row;
    qBelow = rowBelow;
    d = dim;
  }

  void scores(float (&c)[keys / 8][4]) const {
#pragma unroll
    for (int t = 0; t < keys / 8; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float *from = i / 2 ? qBelow : q;
        const float *k = shared.k[t * 8 + quad * 2 + i % 2];
        float sum = 0;
        for (uint32_t j = 0; j < d; ++j)
          sum += from[j] * k[j];
        c[t][i] = sum;
      }
  }

  void addValues(const float (&p)[keys / 8][4], float (&o)[D / 8][4]) const {
    auto &rows = shared.p[warp]; // the last tile's are behind a barrier
#pragma unroll
    for (int t = 0; t < keys / 8; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        rows[low + i / 2 * 8][t * 8 + quad * 2 + i % 2] = p[t][i];
    simt.syncWarp();
    for (int key = 0; key < keys; ++key) {
      float above = rows[low][key], below = rows[low + 8][key];
#pragma unroll
      for (int t = 0; t < D / 8; ++t) {
        const float *v = &shared.v[key][t * 8 + quad * 2];
        o[t][0] += above * v[0];
        o[t][1] += above * v[1];
        o[t][2] += below * v[0];
        o[t][3] += below * v[1];
      }
    }
  }

private:
  const Simt &simt;
  Shared &shared;
  uint32_t quad, low, warp, d = 0;
  const float *q = nullptr, *qBelow = nullptr;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_ATTENTIONTILE_H
