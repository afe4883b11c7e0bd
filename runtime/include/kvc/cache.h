/*===- cache.h - KV caches as engines have them ---------------------------===*\
 *
 * Where row r of KV head g of sequence s lies, in three kinds of cache, and how new
 * rows come behind it. The rules of kvc.h hold: strides are in elements, structs
 * begin with their size and grow at the end, what fails says so in one line.
 *
 * Words (docs/attention.md): a row is the key and the value of one token for one KV
 * head; a slot is a place for a row; n[s, g] rows of a head lie in slots that follow
 * each other, the oldest first. A token keeps its true position, the number it has
 * in the whole sequence, whatever was evicted in front of it.
 *
 *   slot     = offsets[s, g] + r               (offsets null: r)
 *   dense    k.data + s * k.batch_stride + g * k.head_stride + slot * k.row_stride
 *   ragged   the same, with an offset for every head: heads follow each other
 *   paged    k.data + table[s, g, slot / page_rows] * k.page_stride
 *                   + g * k.head_stride + slot % page_rows * k.row_stride
 *
 * and the same for v. So all of these are only numbers in a view:
 *
 *   [batch, heads, T, d] or [batch, T, heads, d]     dense
 *   left padding                                     dense, offsets per sequence
 *   kvc_compact's output                             ragged, head_stride 0
 *   [sum of rows, heads, d] (varlen)                 ragged, batch_stride 0, offsets
 *                                                    per sequence
 *   pages as NHD or HND; K and V apart, side by
 *   side or packed in one row                        paged
 *   a table per head, a page of one head's rows      paged, k.head_stride 0
 *   K and V with page numbers of their own           paged, v_table
 *   one list of pages for all sequences (CSR)        paged, table.batch_stride 0,
 *                                                    offsets = indptr * page_rows
 *   heads behind each other in a sequence's pages    paged, k.head_stride 0, offsets
 *                                                    per head
 *
\*===----------------------------------------------------------------------===*/

#ifndef KVC_CACHE_H
#define KVC_CACHE_H

#include "kvc/kvc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* head_dim that a view may have. */
#define KVC_MAX_HEAD_DIM 256

/* Keys, values or numbers of rows in memory. The elements of a row are contiguous,
 * and aligned to their size. A stride may be 0 or negative; that of a kind which has
 * no such step is not read. */
typedef struct kvc_plane {
  void *data;
  int64_t batch_stride; /* dense, ragged: to the next sequence; 0: one memory */
  int64_t head_stride;  /* to the next KV head, inside a page if paged */
  int64_t row_stride;   /* to the next slot, inside a page if paged */
  int64_t page_stride;  /* paged: to the next page */
} kvc_plane;

/* Whole numbers [batch, kv_heads] in device memory. head_stride 0: one for all heads
 * of a sequence; batch_stride 0: one for all sequences. */
typedef struct kvc_numbers {
  int32_t *data;
  int64_t batch_stride, head_stride;
} kvc_numbers;

/* What the rows of a merged cache represent: for every sequence and KV head a list of
 * members, device [batch, kv_heads, capacity], as kvc_layer_args.member_* has it. The
 * key of a member is norm * RoPE(k[row], position), its value v[row]: rows hold keys
 * before RoPE. */
typedef struct kvc_member_table {
  size_t struct_size;
  int32_t *rows;      /* of the head, from 0 */
  int32_t *positions; /* true positions; in any order */
  float *norms;
  int32_t *counts; /* device [batch, kv_heads]: members of the head */
  uint32_t capacity;
} kvc_member_table;

/* Zero what is not said to be needed. Arrays are in device memory, and are written by
 * kvc_append alone. */
typedef struct kvc_cache_view {
  size_t struct_size;
  kvc_cache_kind kind;
  kvc_dtype dtype;    /* of K and V */
  uint32_t batch;     /* sequences, 1 to 65535 */
  uint32_t kv_heads;  /* 1 to KVC_MAX_KV_HEADS */
  uint32_t head_dim;  /* elements of a row, 1 to KVC_MAX_HEAD_DIM */
  kvc_plane k, v;     /* keys after RoPE, but for merged rows before it */
  kvc_numbers counts; /* rows that are there, n[s, g] >= 0 */
  /* device [batch]: T, the true position of the next token, rows of the newest tokens
   * counted. Null: all tokens have a row, T is the count; then heads share counts, and
   * there are neither positions nor members. */
  int32_t *lengths;
  /* dense, ragged: slots from data on, of a head (dense), or of a sequence (ragged;
   * with batch_stride 0, of all). paged: not read. */
  uint32_t slots;
  /* ragged: needed. Else null: 0. Where heads or sequences lie in the same slots
   * (stride 0), offsets ascend, and a head's slots end where the next one's begin. */
  kvc_numbers offsets;
  /* paged: device [batch, kv_heads, table_entries], from 0 to pages - 1; entries of a
   * list are contiguous. table.head_stride 0: one table for all heads. Entries behind
   * the last row's are read by kvc_append alone. */
  kvc_numbers table;
  kvc_numbers v_table;    /* the values' pages; data null: as the keys' */
  uint32_t table_entries; /* of each list; with batch_stride 0, of the one */
  uint32_t page_rows;     /* slots of a page, a power of two */
  uint32_t pages;         /* of the pool */
  /* int32: true position of each row, ascending, from 0 to T - 1. data null: the row
   * number. Else that of row r lies at s * batch_stride + g * head_stride + r *
   * row_stride, whatever the kind, or, where positions_by_slot is not 0, where the row
   * does: the formula of K, with these strides. */
  kvc_plane positions;
  uint32_t positions_by_slot;
  /* Null: rows are not merged. */
  const kvc_member_table *members;
} kvc_cache_view;

/*===--- new rows --------------------------------------------------------===*/

typedef struct kvc_append_args {
  size_t struct_size;
  kvc_target_kind target; /* KVC_PTX after kvc_enable_ptx (kvc/ptx.h) */
  int device;             /* CUDA ordinal */
  void *stream;           /* CUstream, not read on the host */
  const kvc_cache_view *cache;
  /* [batch, kv_heads, rows, d] of the cache's dtype, in the order of their tokens. For
   * a merged cache k is before RoPE, any length. */
  kvc_rows k, v;
  uint32_t rows; /* for each sequence, at least 1 */
  /* Not on the host: device [1] or null, gets KVC_DATA_* bits; the caller clears it. */
  int32_t *status;
} kvc_append_args;

/* Writes rows T, T + 1, ... of every sequence behind those of each head, their
 * positions, and the new counts and lengths; a merged cache gets unit keys and a member
 * for each. Where the cache has no positions, all tokens must have a row.
 *
 * On the host everything is checked before the first byte is written:
 * KVC_EXCEEDS_LIMITS where a head has too few free slots, or a list of members too few
 * entries; KVC_BAD_ARGUMENT where a page is outside the pool, one that is written
 * occurs twice, or a newest position is not below T. Pages that only hold older rows may
 * be shared (prefixes). Not checked: that the arrays and the memory are as large as said.
 *
 * On a GPU two launches do it. A sequence one of whose heads has no room, or is not
 * right, gets no row in any head, and `status` KVC_DATA_CAPACITY or KVC_DATA_CACHE. A
 * page that is written and occurs twice sets KVC_DATA_CACHE, too, but rows are written.
 * Allocates nothing but at the first call for a device, element type and width of
 * head_dim, which loads the kernels: in front of a CUDA graph's capture call
 * kvc_attend_workspace, which loads the same. KVC_UNSUPPORTED where this library was
 * built without kernels for GPUs. */
kvc_status kvc_append(const kvc_append_args *args);

#ifdef __cplusplus
}
#endif

#endif /* KVC_CACHE_H */
