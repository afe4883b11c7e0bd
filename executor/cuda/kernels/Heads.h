//===- Heads.h - projections become queries, keys and values --------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_HEADS_H
#define KVC_EXECUTOR_CUDA_KERNELS_HEADS_H

#include "executor/cuda/kernels/Args.h"
#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

/// Component i goes with component i + d / 2: a lane takes such pairs.
template <typename E> void heads(const Simt &simt, const HeadsArgs &a) {
  uint64_t row = simt.blockY();
  uint64_t token =
      uint64_t(simt.blockX()) * headTokens + simt.thread() / warpSize;
  if (token >= a.tokens)
    return; // all lanes of the warp
  uint32_t all = a.qHeads + 2 * a.kvHeads;
  uint32_t lane = simt.thread() % warpSize, half = a.d / 2;
  const E *from = static_cast<const E *>(a.qkv) + (token * all + row) * a.d;
  bool query = row < a.qHeads, value = row >= a.qHeads + a.kvHeads;
  uint64_t head = query ? row : (row - a.qHeads) % a.kvHeads;
  uint64_t at = (head * a.tokens + token) * a.d;
  auto load = [&](uint32_t i) {
    return widen(from[i]) + (a.bias ? a.bias[row * a.d + i] : 0.0f);
  };

  if (value) {
    for (uint32_t i = lane; i < a.d; i += warpSize)
      static_cast<E *>(a.v)[at + i] = narrow<E>(load(i));
    return;
  }
  const float *norm = query ? a.queryNorm : a.keyNorm;
  float scale = 1;
  if (norm) {
    float squares = 0;
    for (uint32_t i = lane; i < a.d; i += warpSize)
      squares += load(i) * load(i);
    squares = sumOf(simt, warpSize, squares);
    scale = 1.0f / __builtin_sqrtf(squares / float(a.d) + a.eps);
  }
  auto normed = [&](uint32_t i) {
    return norm ? load(i) * scale * norm[i] : load(i);
  };
  E *to = static_cast<E *>(query ? a.q : a.k) + at;
  const float *turn = a.rope + token * a.d;
  for (uint32_t i = lane; i < half; i += warpSize) {
    float x = normed(i), y = normed(i + half);
    float c = turn[2 * i], s = turn[2 * i + 1];
    to[i] = narrow<E>(x * c - y * s);
    to[i + half] = narrow<E>(y * c + x * s);
    if (!query) {
      static_cast<E *>(a.kRaw)[at + i] = narrow<E>(x);
      static_cast<E *>(a.kRaw)[at + i + half] = narrow<E>(y);
    }
  }
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_HEADS_H
