//===- Simt.h - what a kernel knows of its thread -------------------------===//
//
// The executor's kernels are plain C++ over this class, compiled twice: for
// NVPTX, where its functions are instructions, and for the host, where they are
// the calls of kvc/simt.h, so that the emulation runs the very same kernels.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_SIMT_H
#define KVC_EXECUTOR_CUDA_KERNELS_SIMT_H

#include "executor/cuda/kernels/Elements.h"

#ifndef __NVPTX__
#include "kvc/simt.h"
#endif

namespace kvc::gpu {

constexpr uint32_t warpSize = 32;
constexpr float log2e = 1.4426950408889634f, ln2 = 0.6931471805599453f;

#ifdef __NVPTX__

class Simt {
public:
  uint32_t thread() const { return __nvvm_read_ptx_sreg_tid_x(); }
  uint32_t blockX() const { return __nvvm_read_ptx_sreg_ctaid_x(); }
  uint32_t blockY() const { return __nvvm_read_ptx_sreg_ctaid_y(); }
  uint32_t blockZ() const { return __nvvm_read_ptx_sreg_ctaid_z(); }
  void barrier() const { __syncthreads(); }
  void syncWarp() const { __nvvm_bar_warp_sync(~0u); }
  float shuffleXor(float value, uint32_t mask) const {
    return __nvvm_shfl_sync_bfly_f32(~0u, value, int(mask), 31);
  }
  float exp2(float x) const { return __nvvm_ex2_approx_f(x); }
  float log2(float x) const { return __nvvm_lg2_approx_f(x); }

  /// c[4] += a[4 * Steps] * b[2 * Steps], the fragments of m16n8k16.
  template <typename E, int Steps>
  void mma(const uint32_t *a, const uint32_t *b, float *c) const {
#pragma unroll
    for (int i = 0; i < Steps; ++i)
      step<E>(a + 4 * i, b + 2 * i, c);
  }

private:
  template <typename E>
  static void step(const uint32_t *a, const uint32_t *b, float *c) {
    if constexpr (isSame<E, BF16>)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

/// Memory of the block, one per kernel.
#define KVC_SHARED(Type, name, simt)                                           \
  static __attribute__((address_space(3), loader_uninitialized))               \
  Type name##Storage;                                                          \
  Type &name = *(Type *)&name##Storage

#else

class Simt {
public:
  explicit Simt(kvc_simt_thread *context) : context(context) {}

  uint32_t thread() const { return context->thread; }
  uint32_t blockX() const { return context->block[0]; }
  uint32_t blockY() const { return context->block[1]; }
  uint32_t blockZ() const { return context->block[2]; }
  void barrier() const { context->ops->barrier(context); }
  void syncWarp() const { context->ops->sync_warp(context); }
  float shuffleXor(float value, uint32_t mask) const {
    uint32_t bits = __builtin_bit_cast(uint32_t, value);
    return __builtin_bit_cast(float,
                              context->ops->shuffle_xor(context, bits, mask));
  }
  float exp2(float x) const { return context->ops->exp2(x); }
  float log2(float x) const { return context->ops->log2(x); }
  template <typename E, int Steps>
  void mma(const uint32_t *a, const uint32_t *b, float *c) const {
    context->ops->mma(context, a, b, c, Steps, isSame<E, BF16>);
  }
  void *shared() const { return context->shared; }

private:
  kvc_simt_thread *context;
};

#define KVC_SHARED(Type, name, simt)                                           \
  Type &name = *static_cast<Type *>((simt).shared())

#endif

/// Over `lanes` neighbours, a power of two; every lane gets the result.
inline float sumOf(const Simt &simt, uint32_t lanes, float value) {
  for (uint32_t mask = lanes / 2; mask; mask /= 2)
    value += simt.shuffleXor(value, mask);
  return value;
}
inline float mostOf(const Simt &simt, uint32_t lanes, float value) {
  for (uint32_t mask = lanes / 2; mask; mask /= 2) {
    float other = simt.shuffleXor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_SIMT_H
