/*===- simt.h - what a host kernel knows of its thread --------------------===*\
 *
 * The contract between host kernels (codegen/lower/GPUToHost.cpp) and the emulation
 * that runs them (emulator). A kernel is the very GPU kernel: one call is
 * one thread. Offsets are compiled into artefacts: change nothing here without
 * raising KVC_ARTIFACT_VERSION.
 *
\*===----------------------------------------------------------------------===*/

#ifndef KVC_SIMT_H
#define KVC_SIMT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvc_simt_thread;

/* Calls in which threads meet. All threads of the warp or block must make the
 * same call. */
typedef struct kvc_simt_ops {
  void (*barrier)(struct kvc_simt_thread *);
  void (*sync_warp)(struct kvc_simt_thread *);
  uint32_t (*shuffle_xor)(struct kvc_simt_thread *, uint32_t value,
                          uint32_t mask);
  uint32_t (*shuffle_up)(struct kvc_simt_thread *, uint32_t value,
                         uint32_t distance);
  uint32_t (*ballot)(struct kvc_simt_thread *, uint32_t bit);
  /* c[4] += a[4 * steps] * b[2 * steps], the fragments of m16n8k16; elements
   * are bf16 if `bf16`, else f16. */
  void (*mma)(struct kvc_simt_thread *, const uint32_t *a, const uint32_t *b,
              float *c, uint32_t steps, uint32_t bf16);
  float (*exp2)(float);
  float (*log2)(float);
  /* The same of a whole warp, whose operands are widened once for several products:
   * left[16 * steps][16] of `a`, right[8][16 * steps] of `b`, where register r of lane l is
   * at [r * 32 + l]; c += left * right, or c = left * right where `fresh`. */
  void (*warp_left)(const uint32_t *a, float *left, uint32_t steps,
                    uint32_t bf16);
  void (*warp_right)(const uint32_t *b, float *right, uint32_t steps,
                     uint32_t bf16);
  void (*warp_product)(const float *left, const float *right, float *c,
                       uint32_t steps, uint32_t fresh);
} kvc_simt_ops;

typedef struct kvc_simt_thread {
  uint32_t thread;         /*  0: index in the block */
  uint32_t block[3];       /*  4 */
  void *shared;            /* 16: the block's memory */
  const kvc_simt_ops *ops; /* 24 */
} kvc_simt_thread;

/* Bytes to which rows, q, wo and what is written must be aligned at most, where a GPU wants
 * 16: host kernels take a mapped file as it lies. */
#define KVC_SIMT_ROW_ALIGNMENT 4

/* The most that one call of a kernel may take of its thread's stack. */
#define KVC_SIMT_STACK_BYTES (96 * 1024)

/* The same of a warp's. */
#define KVC_SIMT_WARP_STACK_BYTES (480 * 1024)

/* One thread of a kernel, or a warp: `thread` is its first then. Every argument fills one 64-bit slot: a pointer, an
 * int64 or, in its low half, a float. */
typedef void (*kvc_host_kernel)(kvc_simt_thread *, const uint64_t *args);

#ifdef __cplusplus
}
#endif

#endif /* KVC_SIMT_H */
