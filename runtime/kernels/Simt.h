//===- Simt.h - what a kernel knows of its thread -------------------------===//
//
// Kernels of the runtime and of the executor are plain C++ over this class, compiled
// twice: for NVPTX, where its functions are instructions, and for the host, where
// they are the calls of kvc/simt.h, so that the emulation runs the very same kernels.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_SIMT_H
#define KVC_RUNTIME_KERNELS_SIMT_H

#include "runtime/kernels/Elements.h"

#ifndef __NVPTX__
#include "kvc/simt.h"
#endif

namespace kvc::gpu {

constexpr uint32_t warpSize = 32;
/// Bytes of a block's memory that a kernel can have without its launch.
constexpr uint32_t mostOwnMemory = 48 << 10;
constexpr float log2e = 1.4426950408889634f, ln2 = 0.6931471805599453f;

#ifdef __NVPTX__

class Simt {
public:
  /// `parameters`: where those of the kernel lie.
  explicit Simt(uint64_t parameters) : parameters(parameters) {}

  uint32_t thread() const { return __nvvm_read_ptx_sreg_tid_x(); }
  uint32_t blockX() const { return __nvvm_read_ptx_sreg_ctaid_x(); }
  uint32_t blockY() const { return __nvvm_read_ptx_sreg_ctaid_y(); }
  uint32_t blockZ() const { return __nvvm_read_ptx_sreg_ctaid_z(); }
  void barrier() const { __syncthreads(); }
  void syncWarp() const { __nvvm_bar_warp_sync(~0u); }
  float shuffleXor(float value, uint32_t mask) const {
    return __nvvm_shfl_sync_bfly_f32(~0u, value, int(mask), 31);
  }
  bool any(bool holds) const { return __nvvm_vote_any_sync(~0u, holds); }
  /// What all lanes of the warp have, so that the compiler knows.
  uint32_t uniform(uint32_t value) const {
    return uint32_t(__nvvm_shfl_sync_idx_i32(~0u, int(value), 0, 31));
  }
  float exp2(float x) const { return __nvvm_ex2_approx_ftz_f(x); }
  float log2(float x) const { return __nvvm_lg2_approx_f(x); }
  /// The larger one, or the one that is a number.
  static float max(float a, float b) { return __nvvm_fmax_f(a, b); }

  /// The address of what lies in the block's memory, in it.
  using Place = uint32_t;
  static Place placeOf(const void *p) {
    return uint32_t(reinterpret_cast<uintptr_t>(
        (__attribute__((address_space(3))) const void *)p));
  }

  /// 16 bytes to the block's memory, there once their group was waited for and the
  /// threads that read them have met. Both are aligned to 16 bytes.
  void copy(void *to, const void *from) const { copy(placeOf(to), from); }
  void copy(uint32_t to, const void *from) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                 "l"((__attribute__((address_space(1))) const void *)from)
                 : "memory");
  }
  void commit() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  /// Until at most `pending` groups of this thread are on their way.
  template <int pending> void wait() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
  }

  /// Fragments for mma of four 8 x 8 matrices in the block's memory, rows `pitch`
  /// elements apart, each row aligned to 16 bytes. B, 16 x 16, stored by columns: of
  /// r[4], r[2 i], r[2 i + 1] are of columns [8 i, 8 i + 8).
  template <typename E>
  void columns(uint32_t *r, const E *tile, uint32_t pitch) const {
    uint32_t lane = thread() % 32;
    loadMatrices(r,
                 tile + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8);
  }
  /// A, 16 x 16: r is what mma takes.
  template <typename E>
  void stacked(uint32_t *r, const E *tile, uint32_t pitch) const {
    uint32_t lane = thread() % 32;
    loadMatrices(r, tile + lane % 16 * pitch + lane / 16 * 8);
  }
  /// B, stored by rows.
  template <typename E>
  void transposed(uint32_t *r, const E *tile, uint32_t pitch) const {
    uint32_t lane = thread() % 32;
    loadMatrices<true>(r, tile + lane % 16 * pitch + lane / 16 * 8);
  }

  /// c[4] += a[4 * Steps] * b[2 * Steps], the fragments of m16n8k16.
  template <typename E, int Steps>
  void mma(const uint32_t *a, const uint32_t *b, float *c) const {
#pragma unroll
    for (int i = 0; i < Steps; ++i)
      step<E>(a + 4 * i, b + 2 * i, c);
  }

  /// A part of the kernel's parameters where they lie, not a copy: what the bulk copy engine
  /// reads.
  template <typename T> const T *parameter(uint32_t offset) const {
    return reinterpret_cast<const T *>(parameters + offset);
  }

private:
  const uint64_t parameters;

  /// `row`: of matrix lane / 8, its row lane % 8.
  template <bool transposed = false>
  static void loadMatrices(uint32_t *r, const void *row) {
    if constexpr (transposed)
      asm volatile(
          "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
          : "r"(placeOf(row))
          : "memory");
    else
      asm volatile(
          "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
          : "r"(placeOf(row))
          : "memory");
  }
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

/// What a launch gives each block beside the memory that a kernel has of its own.
extern "C" alignas(1024)
    __attribute__((address_space(3))) char kvcLaunchMemory[];

template <typename T> T &blockMemory() {
  if constexpr (sizeof(T) > mostOwnMemory) {
    return *(T *)kvcLaunchMemory;
  } else {
    static __attribute__((address_space(3), loader_uninitialized)) T memory;
    return *(T *)&memory;
  }
}

/// Memory of the block, one per kernel.
#define KVC_SHARED(Type, name, simt) Type &name = blockMemory<Type>()

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
  bool any(bool holds) const { return context->ops->ballot(context, holds); }
  uint32_t uniform(uint32_t value) const { return value; }
  float exp2(float x) const { return context->ops->exp2(x); }
  float log2(float x) const { return context->ops->log2(x); }
  static float max(float a, float b) { return __builtin_fmaxf(a, b); }
  template <typename E, int Steps>
  void mma(const uint32_t *a, const uint32_t *b, float *c) const {
    context->ops->mma(context, a, b, c, Steps, isSame<E, BF16>);
  }
  using Place = char *;
  static Place placeOf(void *p) { return static_cast<char *>(p); }
  void copy(void *to, const void *from) const {
    __builtin_memcpy(to, from, 16);
  }
  void commit() const {}
  template <int pending> void wait() const {}
  template <typename E>
  void columns(uint32_t *r, const E *tile, uint32_t pitch) const {
    uint32_t lane = thread() % 32;
    for (uint32_t i = 0; i < 4; ++i) {
      const E *two =
          tile + (i / 2 * 8 + lane / 4) * pitch + i % 2 * 8 + lane % 4 * 2;
      r[i] = pack(two[0], two[1]);
    }
  }
  template <typename E>
  void stacked(uint32_t *r, const E *tile, uint32_t pitch) const {
    uint32_t lane = thread() % 32;
    for (uint32_t i = 0; i < 4; ++i) {
      const E *two =
          tile + (i % 2 * 8 + lane / 4) * pitch + i / 2 * 8 + lane % 4 * 2;
      r[i] = pack(two[0], two[1]);
    }
  }
  template <typename E>
  void transposed(uint32_t *r, const E *tile, uint32_t pitch) const {
    uint32_t lane = thread() % 32;
    for (uint32_t i = 0; i < 4; ++i) {
      const E *two =
          tile + (i % 2 * 8 + lane % 4 * 2) * pitch + i / 2 * 8 + lane / 4;
      r[i] = pack(two[0], two[pitch]);
    }
  }
  void *shared() const { return context->shared; }
  template <typename T> const T *parameter(uint32_t) const { return nullptr; }

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
    value = simt.max(value, simt.shuffleXor(value, mask));
  }
  return value;
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_SIMT_H
