/*===- attend.h - attention over caches that were compressed --------------===*\
 *
 * Decoding, chunks and questions behind an eviction: queries against any view of
 * kvc/cache.h, where every KV head has rows of its own number. The rules of kvc.h hold.
 *
\*===----------------------------------------------------------------------===*/

#ifndef KVC_ATTEND_H
#define KVC_ATTEND_H

#include "kvc/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvc_attend_args {
  size_t struct_size;
  kvc_target_kind target; /* KVC_PTX after kvc_enable_ptx (kvc/ptx.h) */
  int device;             /* CUDA ordinal */
  unsigned threads;       /* host: at most so many, 0 = one per core */
  void *stream;           /* CUstream, not read on the host */
  /* The rows of the queries' own tokens are in it (kvc_append). */
  const kvc_cache_view *cache;
  uint32_t q_heads;    /* a multiple of kv_heads */
  uint32_t queries;    /* of each sequence, at least 1: the newest tokens */
  kvc_rows q;          /* [batch, q_heads, queries, d], the cache's dtype */
  kvc_plane out;       /* [batch, q_heads, queries, d] */
  kvc_dtype out_dtype; /* KVC_F32 or the cache's */
  float *lse; /* device [batch, q_heads, queries], or null: not wanted */
  int64_t lse_batch_stride, lse_head_stride;
  int lse_base_2; /* nonzero: base 2, else natural */
  float scale;    /* of the logits; 0 means 1 / sqrt(d) */
  /* Merged rows: cosine and sine of every angle of a position, f32 device
   * [rope_positions, d / 2, 2]; component i is turned with i + d / 2. */
  const float *rope;
  uint32_t rope_positions;
  /* No head has more rows (merged: members) in this call. 0: as many as the view has
   * room for. Decides the workspace. */
  uint32_t max_rows;
  void *workspace; /* device, aligned to 64 bytes; null where none is needed */
  size_t workspace_bytes;
  /* Not on the host: device [1] or null, gets KVC_DATA_* bits; the caller clears it. */
  int32_t *status;
} kvc_attend_args;

/* Sets `bytes` to what kvc_attend needs as workspace for these heads and at most so
 * many sequences, queries, max_rows and, where that is 0, as much room: ask once, with
 * the largest. Errors are those of kvc_attend that its view and numbers decide; no
 * array is read, and q, out, lse and scale are not looked at. For a GPU it loads the
 * kernels, which kvc_attend and kvc_append else do at their first call. */
kvc_status kvc_attend_workspace(const kvc_attend_args *args, size_t *bytes);

/* out = softmax(scale * q k^T) v over the rows that a query sees, sums in f32, and
 * lse = log of the sum of exp(logit). Query j of a sequence has position
 * T - queries + j, and sees rows of a position up to it. One that sees none gives 0,
 * and lse -infinity.
 *
 * Neither the kind of the view nor its page size nor the number of threads changes a
 * byte of the result. Machines with other vector units may round otherwise; a GPU does,
 * and there weights are rounded to the cache's type before they multiply values, and
 * `max_rows` decides how keys are split, which may change the last bits.
 *
 * On the host everything is checked before the first byte is written:
 * KVC_EXCEEDS_LIMITS where a head has more rows than slots or max_rows, or head_dim is
 * above KVC_MAX_HEAD_DIM; KVC_BAD_ARGUMENT where a table names a page outside the pool,
 * positions do not ascend from 0 to T - 1, or a member names a row that is not there or
 * a position without an angle; KVC_WORKSPACE_TOO_SMALL. Allocates nothing; threads but
 * the first are started for the call where there is work for them, and have ended when it
 * returns.
 *
 * On a GPU it is one launch, or two where keys are split between blocks; captured in a
 * CUDA graph where the kernels are loaded (kvc_attend_workspace). What the arrays have
 * wrong sets `status`: KVC_DATA_CACHE (a count, page or member leads out of the cache:
 * what came out means nothing, no row outside was read), KVC_DATA_CAPACITY (a head has
 * more than max_rows: right, but slow). A value that is NaN or infinite of a token behind
 * a query's makes the query's result NaN where both are in one call's `queries`.
 * KVC_UNSUPPORTED where this library was built without kernels for GPUs. */
kvc_status kvc_attend(const kvc_attend_args *args);

#ifdef __cplusplus
}
#endif

#endif /* KVC_ATTEND_H */
