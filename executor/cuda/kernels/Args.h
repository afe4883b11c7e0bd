//===- Args.h - what the executor's kernels are launched with -------------===//
//
// A kernel takes one of these structs by value. Pointers are device memory; E
// is the element type in the kernel's name (f32, f16, bf16); matrices are
// row-major. T is the number of tokens run, d the head dimension.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_KERNELS_ARGS_H
#define KVC_EXECUTOR_CUDA_KERNELS_ARGS_H

#include "runtime/kernels/TensorMap.h"

#include <stdint.h>

namespace kvc::gpu {

/// Threads of a block of embed, rms_norm, add_bias and swiglu.
constexpr uint32_t rowThreads = 256;
/// Of heads: a warp for a token.
constexpr uint32_t headTokens = 4, headThreads = headTokens * 32;
/// Of move_rows and join_E, a warp a row, and move_members, a thread a member.
constexpr uint32_t moveThreads = 256, movedRows = moveThreads / 32;

/// embed_E: grid [T].
struct EmbedArgs {
  const int32_t *tokens; // [T]
  const void *table;     // E [vocab, width]
  float *x;              // [T, width]
  uint32_t width;
};

/// rms_norm_E: grid [rows].
struct RmsNormArgs {
  const float *x;      // [rows, width]
  const float *weight; // [width]
  void *y;             // E [rows, width]
  uint32_t width;
  float eps;
};

/// add_bias: grid [rows].
struct AddBiasArgs {
  float *x;          // [rows, width]
  const float *bias; // [width]
  uint32_t width;
};

/// swiglu_E: silu(gate) * up; grid [rows].
struct SwigluArgs {
  const void *gateUp; // E [rows, 2 * width], gate first
  const float *bias;  // [2 * width], or null
  void *y;            // E [rows, width]
  uint32_t width;
};

/// heads_E, grid [ceil(T / headTokens), Hq + 2 * Hkv]: the product of the
/// joined projections becomes queries, keys and values by head, with bias, norm
/// (Qwen 3) and RoPE.
struct HeadsArgs {
  const void *qkv;                  // E [T, (Hq + 2 * Hkv) * d]
  const float *bias;                // [(Hq + 2 * Hkv) * d], or null
  const float *queryNorm, *keyNorm; // [d], or null
  const float *rope;                // [T, d / 2, 2]: cosine, sine
  void *q, *k, *kRaw, *v;           // E [heads, T, d]
  uint32_t tokens, qHeads, kvHeads, d;
  float eps;
};

/// What the rows of a merged cache represent; `rows` is null where they are not.
struct MembersArgs {
  int32_t *rows, *positions; // [Hkv, capacity], rows counted in their head
  float *norms;              // [Hkv, capacity]
  const int32_t *counts;     // [Hkv]
  uint32_t capacity;
};

/// Rows of one layer of one sequence, ragged by head. Head h has counts[h] +
/// extra rows, from row offsets[h] on. In a merged cache rows hold keys before
/// RoPE, and members.counts[h] + extra members are attended to in their place:
/// norm * RoPE(row's key) at the member's position, with the row's value.
struct CacheArgs {
  const void *k, *v;               // E [rows, d]
  const int32_t *offsets, *counts; // [Hkv]
  uint32_t extra;
  MembersArgs members;
  const float *rope; // [positions, d / 2, 2]
};

/// attend_E_D_rows and attend_E_D_keys (AttentionSweep's byKeys), D >= d, grid
/// [ceil(T * G / attentionRows), Hkv, splits]: attention to the cache and, causally,
/// to the tokens themselves. The rows of a KV head are its T queries times the G query
/// heads of its group. Then combine_E_D, grid [T * Hq], if splits > 1.
struct AttendArgs {
  /// Of the cache's rows, all heads' in one dimension, or, where it has none, of the tokens by
  /// KV head.
  BoxArgs boxes;
  uint32_t boxesOfTokens;
  const void *q;     // E [Hq, T, d]
  const void *k, *v; // E [Hkv, T, d]
  CacheArgs cache;
  void *out;    // E [T, Hq, d]
  float *lse;   // [Hq, T], natural
  float *parts; // [Hq, T, splits, d + 2] if splits > 1: sums and their RowState
  uint32_t tokens, qHeads, kvHeads, d;
  float scale;
  uint32_t splits; // of the keys
};

/// Where the rows of a head begin: at[h] + plus[h] + extra, or h * stride +
/// extra where `at` is null.
struct PlacesArgs {
  const int32_t *at = nullptr, *plus = nullptr; // [heads], or null
  uint32_t stride = 0, extra = 0;
};

/// move_rows, grid [ceil(most / movedRows), heads]: counts[h] + extra rows
/// of each head, K and V. Row r of a head goes from its from-place to its
/// to-place; and its position, addPosition more than what is at the place of
/// `positionsFrom`, or than r where fromPositions is null.
struct MoveRowsArgs {
  const void *fromK, *fromV;
  void *toK, *toV;
  PlacesArgs from, to;
  const int32_t *counts = nullptr; // [heads], or null for 0
  uint32_t extra = 0;
  uint32_t rowWords = 0; // 32-bit words of a row
  const int32_t *fromPositions = nullptr;
  int32_t *toPositions = nullptr;
  PlacesArgs positionsFrom = {};
  int32_t addPosition = 0;
};

/// move_members, grid [ceil(most / moveThreads), heads]: counts[h] + extra
/// members of each head. Their rows get addRows[h] + addRow more, their positions
/// addPosition.
struct MoveMembersArgs {
  const int32_t *fromRows, *fromPositions;
  const float *fromNorms;
  int32_t *toRows = nullptr, *toPositions = nullptr;
  float *toNorms = nullptr;
  PlacesArgs from, to = {};
  const int32_t *counts; // [heads]
  uint32_t extra = 0;
  const int32_t *addRows = nullptr; // [heads], or null for 0
  int32_t addRow = 0, addPosition = 0;
};

/// join_E, grid [ceil(T / movedRows), heads]: tokens become rows of one member, behind
/// those of a merged cache: k / |k|, the value as it is, and |k| in the table. Head h
/// has counts[h] + extra rows in front, members.counts[h] + extra members.
struct JoinArgs {
  const void *k, *v;  // E [heads, T, d], keys before RoPE; [heads, vRows, d]
  void *toK, *toV;    // E [rows, d]
  int32_t *positions; // [rows]
  const int32_t *offsets, *counts; // [heads]
  uint32_t extra;
  MembersArgs members;
  uint32_t tokens, vRows, d;
  int32_t position; // of the first token
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_KERNELS_ARGS_H
