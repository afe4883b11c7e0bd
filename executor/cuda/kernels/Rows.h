//===- Rows.h - kernels that walk rows of the hidden width ----------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_ROWS_H
#define KVC_EXECUTOR_CUDA_KERNELS_ROWS_H

#include "executor/cuda/kernels/Args.h"
#include "runtime/kernels/Simt.h"

namespace kvc::gpu {

template <typename E> void embed(const Simt &simt, const EmbedArgs &a) {
  uint64_t row = simt.blockX(), token = uint32_t(a.tokens[row]);
  const E *from = static_cast<const E *>(a.table) + token * a.width;
  for (uint32_t i = simt.thread(); i < a.width; i += rowThreads)
    a.x[row * a.width + i] = widen(from[i]);
}

struct RmsNormShared {
  float sums[rowThreads / warpSize];
};

template <typename E> void rmsNorm(const Simt &simt, const RmsNormArgs &a) {
  KVC_SHARED(RmsNormShared, shared, simt);
  uint64_t row = simt.blockX();
  const float *x = a.x + row * a.width;
  E *y = static_cast<E *>(a.y) + row * a.width;
  float squares = 0;
  for (uint32_t i = simt.thread(); i < a.width; i += rowThreads)
    squares += x[i] * x[i];
  squares = sumOf(simt, warpSize, squares);
  if (simt.thread() % warpSize == 0)
    shared.sums[simt.thread() / warpSize] = squares;
  simt.barrier();
  float total = 0;
  for (float sum : shared.sums)
    total += sum;
  float scale = 1.0f / __builtin_sqrtf(total / float(a.width) + a.eps);
  for (uint32_t i = simt.thread(); i < a.width; i += rowThreads)
    y[i] = narrow<E>(x[i] * scale * a.weight[i]);
}

inline void addBias(const Simt &simt, const AddBiasArgs &a) {
  float *x = a.x + uint64_t(simt.blockX()) * a.width;
  for (uint32_t i = simt.thread(); i < a.width; i += rowThreads)
    x[i] += a.bias[i];
}

template <typename E> void swiglu(const Simt &simt, const SwigluArgs &a) {
  uint64_t row = simt.blockX();
  const E *gate = static_cast<const E *>(a.gateUp) + row * 2 * a.width;
  const E *up = gate + a.width;
  E *y = static_cast<E *>(a.y) + row * a.width;
  for (uint32_t i = simt.thread(); i < a.width; i += rowThreads) {
    float g = widen(gate[i]), u = widen(up[i]);
    if (a.bias) {
      g += a.bias[i];
      u += a.bias[a.width + i];
    }
    y[i] = narrow<E>(g / (1.0f + simt.exp2(-g * log2e)) * u);
  }
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_ROWS_H
