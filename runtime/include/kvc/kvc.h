/*===- kvc.h - the C ABI: eviction inside an engine's prefill -------------===*\
 *
 * A compiled policy is opened as a module, planned once for the engine's limits,
 * and enqueued once per layer. Rules that hold for every function:
 *
 * - The caller owns all device memory: cache, workspace, outputs. On the host
 *   target "device" is the process's own memory and a call returns when done.
 * - kvc_layer_* and kvc_compact allocate nothing, neither on the device nor, on a
 *   GPU, on the host; they never synchronise and never read back, so they can be
 *   captured in a CUDA graph.
 * - From sm_90 on launches of one call, but the first, may begin while the one in front
 *   of them still runs; they wait themselves (programmatic dependent launch, drivers of
 *   CUDA 12.3 and later). A kernel of the engine that is launched behind a call with that
 *   attribute must wait in the same way (cudaGridDependencySynchronize): our last kernel
 *   lets it begin. Any other launch waits for the call's end, as ever.
 * - A plan is immutable: several threads may use it on several streams with
 *   workspaces of their own.
 * - Strides are in elements, sizes in bytes. Every struct begins with its size, and
 *   may grow at its end: fields that the caller's header did not have are 0 here, and
 *   fields that this library does not have must be 0. So a field that is 0 means what
 *   was before it (a dense cache, say), in every version to come.
 * - Arrays of 32-bit numbers are aligned to 4 bytes, rows as kvc_plan_info says.
 * - Nothing aborts. A function that fails returns a negative status and leaves
 *   one line in kvc_last_error. Faults in the data (NaN scores) set bits of the
 *   status word.
 * - Ties go to the smaller token; the same input gives the same bytes.
 *
 * The kept cache must not be registered as a reusable prefix, and the position
 * of the next token stays its true position, whatever the number of rows.
 *
\*===----------------------------------------------------------------------===*/

#ifndef KVC_KVC_H
#define KVC_KVC_H

#include "kvc/artifact.h"

#include <stddef.h>
#include <stdint.h>

#define KVC_ABI_VERSION 2u

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvc_status {
  KVC_OK = 0,
  KVC_BAD_ARGUMENT = -1,
  KVC_UNSUPPORTED = -2,
  KVC_EXCEEDS_LIMITS = -3,
  KVC_WORKSPACE_TOO_SMALL = -4,
  KVC_MISALIGNED = -5,
  KVC_ABI_MISMATCH = -6,
  KVC_BAD_ARTIFACT = -7,
  KVC_DRIVER_ERROR = -8,
  KVC_INTERNAL_ERROR = -9
} kvc_status;

typedef enum kvc_dtype { KVC_F32 = 0, KVC_F16 = 1, KVC_BF16 = 2 } kvc_dtype;
typedef enum kvc_target_kind {
  KVC_HOST = 0, /* after kvc_enable_host (kvc/host.h) */
  KVC_CUDA = 1,
  KVC_PTX = 2 /* the PTX on the CPU: after kvc_enable_ptx (kvc/ptx.h) */
} kvc_target_kind;

/* How a cache holds its rows: kvc/cache.h. */
typedef enum kvc_cache_kind {
  KVC_DENSE = 0,
  KVC_RAGGED = 1,
  KVC_PAGED = 2,
  KVC_MERGED = 3,      /* of a plan: a dense or ragged view with members */
  KVC_MERGED_PAGED = 4 /* of a plan: a paged view with members */
} kvc_cache_kind;

typedef struct kvc_module kvc_module;
typedef struct kvc_plan kvc_plan;
struct kvc_cache_view;

uint32_t kvc_abi_version(void);

/* Copies the calling thread's last error, cut to `capacity` and terminated;
 * returns its full length. */
size_t kvc_last_error(char *text, size_t capacity);

/* Number of CUDA devices that the driver reports, 0 without a driver. */
int kvc_cuda_device_count(void);

/*===--- modules ---------------------------------------------------------===*/

typedef struct kvc_target {
  size_t struct_size;
  kvc_target_kind kind;
  int device;       /* CUDA ordinal; its primary context is used */
  unsigned threads; /* host, PTX: operating-system threads, 0 = one per core */
  uint64_t seed;    /* host, PTX: order of GPU threads, 0 = ascending */
} kvc_target;

/* Opens a policy that is linked into the program. The artifact must outlive the
 * module. */
kvc_status kvc_module_open(const kvc_artifact *artifact,
                           const kvc_target *target, kvc_module **module);
/* Opens a policy from a library that `kvc-opt --emit=library` made. As long as a library
 * is open, its path names that one, whatever file is there by then. */
kvc_status kvc_module_load(const char *path, const kvc_target *target,
                           kvc_module **module);
/* Its plans are destroyed first. */
void kvc_module_close(kvc_module *module);
/* JSON, as long as the module is open. */
const char *kvc_module_manifest(const kvc_module *module);

/*===--- plans -----------------------------------------------------------===*/

typedef struct kvc_plan_options {
  size_t struct_size;
  uint32_t head_dim, q_heads, kv_heads;
  kvc_dtype dtype;
  uint32_t max_batch;  /* sequences in one call */
  uint32_t max_tokens; /* T of the longest */
  int lse_given;       /* nonzero: every call brings the log-sum-exp */
  /* KVC_DENSE: a prompt with every token, given as k and v. Else a variant that was
   * compiled for such a cache (--shape ...,cache=ragged), given as `cache`; max_tokens
   * are those of T, and no head has more rows. */
  kvc_cache_kind cache;
  /* Where kept rows go. KVC_DENSE: packed, to k_out and v_out. Else a variant that was
   * compiled for such a view (--shape ...,into=paged), given as `into`. */
  kvc_cache_kind into;
} kvc_plan_options;

#define KVC_ALL_QUERIES UINT32_MAX

/* Bits of kvc_plan_info.inputs. */
enum {
  KVC_READS_WO = 1,       /* the layer's output projection */
  KVC_READS_TABLE = 2,    /* the importance of every query head of the model */
  KVC_READS_STATE = 4,    /* what earlier layers left behind */
  KVC_READS_RAW_KEYS = 8, /* keys before RoPE */
  KVC_MERGES = 16, /* rows hold merged keys before RoPE, and there is a table of
                    * what each row represents */
  KVC_READS_NEW_QUERIES = 32, /* as many queries as are new: kvc_layer_args.new_queries
                              * says so, else those of the whole sequence */
  KVC_READS_ANGLES = 64 /* cosines and sines of positions: kvc_layer_args.rope */
};

typedef struct kvc_plan_info {
  size_t struct_size;
  size_t workspace_bytes;
  size_t workspace_alignment;
  uint32_t launches;     /* of kvc_layer_evict, with what a call prepares that
                          * does not bring `prepared` */
  uint32_t queries;      /* last queries that scoring reads, 0 if none, or
                          * KVC_ALL_QUERIES: those of the whole sequence */
  uint32_t inputs;       /* what else kvc_layer_args must bring, KVC_READS_* */
  uint32_t vector;       /* strides are multiples of it */
  int64_t scores_offset; /* f32 in the workspace after select, -1 if none */
  uint32_t scores_heads; /* rows per sequence, of the call's `tokens` each: kv_heads or
                          * 1 */
  uint32_t scores_by_position; /* 1: of a cache of rows, one score of a token for all
                                * heads, by its true position; 0: by row */
  uint32_t least_queries; /* KVC_READS_NEW_QUERIES: last queries that are read at
                           * least, however few are new */
  uint32_t row_states; /* numbers that each row carries from run to run, 0 for none;
                        * the manifest has their names, in this order */
  uint32_t row_alignment; /* bytes to which q, k, v, k_raw, wo and the memory for kept
                           * rows must be aligned: on GPUs those of `vector` elements, on
                           * the host at most 4 */
  size_t prepared_bytes; /* of kvc_layer_args.prepared; 0: nothing depends on the
                            * layer's weights alone */
} kvc_plan_info;

kvc_status kvc_plan_create(kvc_module *module, const kvc_plan_options *options,
                           kvc_plan **plan);
void kvc_plan_destroy(kvc_plan *plan);
/* Sets `info` (struct_size filled in by the caller). */
kvc_status kvc_plan_query(const kvc_plan *plan, kvc_plan_info *info);

/*===--- one layer -------------------------------------------------------===*/

typedef struct kvc_rows {
  const void *data;
  int64_t batch_stride, head_stride, row_stride; /* rows are contiguous; row_stride and,
                                                  * in views, page_stride fit 32 bits */
} kvc_rows;

/* Numbers that rows carry: that of state j of row r of KV head g of sequence s lies at
 * j * state_stride + s * batch_stride + g * head_stride + r * row_stride, or, with
 * by_slot, where the row of a ragged or paged cache does: the formula of K, with these
 * strides. */
typedef struct kvc_row_states {
  float *data;
  int64_t state_stride, batch_stride, head_stride, row_stride, page_stride;
  uint32_t by_slot;
} kvc_row_states;

#define KVC_PREPARED_ALIGNMENT 16 /* bytes */

typedef struct kvc_layer_args {
  size_t struct_size;
  uint32_t batch;
  uint32_t tokens;        /* host: upper bound of lengths in this call */
  uint32_t layer, layers; /* which layer this is, from 0, and of how many */
  const int32_t *lengths; /* device [batch]: T, 1 to tokens; the host checks it, on a
                           * GPU nobody does for a dense prompt */
  const int32_t *budgets; /* device [batch]: B, at least 1 */
  kvc_rows k, v;          /* [batch, kv_heads, T, d], keys after RoPE */
  kvc_rows q;             /* [batch, q_heads, q_rows, d], the last queries */
  uint32_t q_rows;
  /* What only some policies read (kvc_plan_info.inputs); else zero.
   * k_raw: as k, before RoPE. wo: the output projection, a row for each of
   * `hidden` outputs with d elements of each query head; batch_stride 0 where
   * all sequences share it. table: device [layers, q_heads], the importance of
   * query heads, finite, 0 or more, not all 0. state: device [batch,
   * state_rows], state_rows at least tokens; kept from layer to layer, cleared
   * by the caller before the first. */
  kvc_rows k_raw, wo;
  uint32_t hidden;
  const float *table;
  int32_t *state;
  uint32_t state_rows;
  const float *lse; /* [batch, q_heads, lse_rows] or null */
  int64_t lse_batch_stride, lse_head_stride;
  uint32_t lse_rows; /* the last of them is the last query's */
  int lse_base_2;    /* nonzero: base 2, else natural */
  float scale;       /* of the logits; 0 means 1 / sqrt(d) */
  int32_t *indices;  /* device [batch, kv_heads, index_capacity], ascending; those that
                      * kvc_compact is given are checked on the host, on a GPU not */
  uint32_t index_capacity;
  int32_t *counts;     /* device [batch, kv_heads] */
  int32_t *past;       /* device [batch]: tokens ranked, 0 if none were; with a
                        * cache [batch, kv_heads]: rows */
  int32_t *status;     /* device [1]; the caller clears it */
  void *k_out, *v_out; /* device [batch, out_rows, d]: head after head; memory apart
                        * from what is read */
  int32_t *offsets;    /* device [batch, kv_heads]: first row of each head */
  /* Policies that merge: device [batch, kv_heads, member_capacity], one entry
   * per token that a row represents, ascending; and how many. A member's key is
   * norm * RoPE(k_out[row], position), its value v_out[row]. */
  int32_t *member_rows, *member_positions;
  float *member_norms;
  int32_t *member_counts; /* device [batch, kv_heads] */
  uint32_t member_capacity;
  uint32_t out_rows; /* rows per sequence; what does not fit is dropped, and
                      * KVC_DATA_CAPACITY set */
  uint32_t slack;    /* free rows left behind each head */
  void *workspace;
  size_t workspace_bytes;
  /* Plans of a ragged or paged cache: its rows, with lengths; where there are
   * positions, a head may have any of the tokens' rows, in ascending order. Then `k`,
   * `v` and `lengths` above are zero, k_raw is of the same slots, q are the queries of
   * the last q_rows tokens whether or not these have rows, and indices are numbers of
   * rows. A head with at most B rows keeps them, but where budgets move between layers
   * (docs/caches.md). On the host the arrays are checked as kvc_append does. */
  const struct kvc_cache_view *cache;
  int32_t *positions_out; /* device [batch, out_rows]: true position of each row of
                           * k_out; needed with a cache, and not the cache's own. Of a
                           * prompt these are `indices`, and nothing is written */
  /* Policies whose rows carry numbers (kvc_plan_info.row_states). new_queries: device
   * [batch], how many of the last queries no earlier run of this layer has had, 0 to T
   * and at most q_rows; null: T. row_states: what rows have carried so far; data null:
   * 0 for all rows, and rows that are new since must have 0. row_states_out: device
   * [row_states, batch, out_rows], beside the rows of k_out; not null: the numbers are
   * computed for all rows, also where nothing is ranked, and need the queries then. */
  const int32_t *new_queries;
  kvc_row_states row_states;
  float *row_states_out;
  /* Plans that write into a view: where kept rows go, and with into_states.data what
   * they carry, in place of k_out, v_out, positions_out, row_states_out, out_rows and
   * slack, which are zero. A head's row r goes to slot into.offsets + r; with
   * pack_to_tail to slot into.offsets + n - kept + r, n the head's rows, so that the
   * last one is where the head's last row was, and slots of tokens to come stay theirs.
   * `offsets` gets the slot of each head's row 0. With these and `counts` as its
   * offsets and counts, `into` is the next call's cache; nothing in it is changed here,
   * and its counts and lengths are not read. Positions are written where it has some.
   *
   * In place: K and V are those of the cache (or of the prompt), laid out alike. Until
   * the compaction begins nothing has changed; it is one launch, behind which the
   * old counts mean nothing. Rows that lie where they belong are not touched; all
   * others are written over, so heads' slots must not overlap, and no page may be
   * another sequence's, too, or occur twice: such a call is refused on the host, on a
   * GPU it sets KVC_DATA_CACHE when rows have moved. Else no slot that is written may
   * be one that is read. Of policies that merge it is two launches: between them what
   * kept rows represent is where they lay. Their `into` holds keys before RoPE, of a prompt in the
   * place of `k`; with the tables member_* as its members it is the next call's
   * cache, and into.members is null.
   *
   * A row that finds no slot (KVC_DATA_CAPACITY), or a table entry outside the pool
   * (KVC_DATA_CACHE), is dropped and nothing is written for it. */
  const struct kvc_cache_view *into;
  uint32_t pack_to_tail;
  kvc_row_states into_states;
  /* In place, in pages: device [batch, kv_heads, 2] or null. The first entry of the
   * head's list, and the number of entries, whose pages held rows and hold none any
   * more; where heads share a table and slots, head 0 has those without a row of any
   * head, and the others have none. */
  int32_t *freed_pages;
  /* Plans of merged caches (cache.members). Member tables that come in are in ascending
   * order of position, one member for a position; those that go out must lie elsewhere.
   * rope: device f32 [rope_positions, head_dim / 2, 2], cosine and sine of every angle of
   * a position, as kvc_attend has them. since: device [batch], how many tokens earlier
   * runs of this layer have had behind the prompt, for policies that ask (kvc.since),
   * 0 to T; null: 0. */
  const float *rope;
  uint32_t rope_positions;
  const int32_t *since;
  /* What kvc_layer_prepare has made of this layer's `wo`, which all sequences share then:
   * kvc_plan_info.prepared_bytes, aligned to KVC_PREPARED_ALIGNMENT. They may be copied.
   * Null: it is made again in this call. */
  void *prepared;
  size_t prepared_bytes;
} kvc_layer_args;

/* `stream` is a CUstream, ignored on the host, here and below. What depends on a layer's
 * weights alone, once for all calls of the layer: reads wo (that of the first sequence)
 * and hidden, and writes prepared; all else in the struct is ignored. Any plan of the
 * same module, heads, head_dim and dtype may read it. Launches nothing where
 * prepared_bytes is 0. */
kvc_status kvc_layer_prepare(const kvc_plan *, const kvc_layer_args *,
                             void *stream);
/* Score and select fill indices, counts, past; compact gathers; evict is all three, and
 * takes a launch less where the kernel that lists kept rows can move them, too. Between
 * these calls of a layer the arguments stay, and nobody else writes to the workspace. */
kvc_status kvc_layer_score(const kvc_plan *, const kvc_layer_args *,
                           void *stream);
kvc_status kvc_layer_select(const kvc_plan *, const kvc_layer_args *,
                            void *stream);
kvc_status kvc_compact(const kvc_plan *, const kvc_layer_args *, void *stream);
kvc_status kvc_layer_evict(const kvc_plan *, const kvc_layer_args *,
                           void *stream);

#ifdef __cplusplus
}
#endif

#endif /* KVC_KVC_H */
