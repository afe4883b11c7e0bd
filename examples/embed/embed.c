/* embed.c - one layer of a cache, evicted by a policy that is linked in.
 *
 * What an engine does for each layer behind its attention: fill in where things
 * are, call one function. Then the next token comes in and attends to what is left.
 * Here on the host target, so that it runs anywhere.
 */
#include "kvc/attend.h"
#include "kvc/host.h"
#include "kvc/kvc.h"
#include "snapkv.h"

#include <stdio.h>
#include <stdlib.h>

enum { heads = 2, group = 4, dim = 64, tokens = 512, budget = 96 };
enum { slack = 8, rows_of_head = budget + slack };

static void check(kvc_status status) {
  char text[256];
  if (status == KVC_OK)
    return;
  kvc_last_error(text, sizeof text);
  fprintf(stderr, "error: %s\n", text);
  exit(1);
}

static float *noise(size_t count) {
  float *x = aligned_alloc(256, (count * sizeof *x + 255) / 256 * 256);
  static unsigned state = 1;
  for (size_t i = 0; i < count; ++i)
    x[i] =
        (float)((state = state * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1;
  return x;
}

int main(void) {
  kvc_enable_host(); /* on a GPU: not linked, not called, .kind = KVC_CUDA */
  kvc_target target = {.struct_size = sizeof target, .kind = KVC_HOST};
  kvc_module *module;
  check(kvc_module_open(&kvc_policy_snapkv, &target, &module));
  kvc_plan_options limits = {.struct_size = sizeof limits,
                             .head_dim = dim,
                             .q_heads = heads * group,
                             .kv_heads = heads,
                             .dtype = KVC_F32,
                             .max_batch = 1,
                             .max_tokens = tokens};
  kvc_plan *plan;
  check(kvc_plan_create(module, &limits, &plan));
  kvc_plan_info info = {.struct_size = sizeof info};
  check(kvc_plan_query(plan, &info));

  int32_t length = tokens, room = budget, counts[heads], past, status = 0;
  int32_t indices[heads * rows_of_head], offsets[heads];
  size_t row = dim, rows = heads * tokens;
  kvc_layer_args layer = {
      .struct_size = sizeof layer,
      .batch = 1,
      .tokens = tokens,
      .layer = 0,
      .layers = 1,
      .lengths = &length,
      .budgets = &room,
      .k = {noise(rows * row), rows * row, tokens * row, row},
      .v = {noise(rows * row), rows * row, tokens * row, row},
      .q = {noise(heads * group * info.queries * row),
            heads * group * info.queries * row, info.queries * row, row},
      .q_rows = info.queries,
      .indices = indices,
      .index_capacity = rows_of_head,
      .counts = counts,
      .past = &past,
      .status = &status,
      .offsets = offsets,
      .k_out = noise(heads * rows_of_head * row),
      .v_out = noise(heads * rows_of_head * row),
      .out_rows = heads * rows_of_head,
      .slack = slack,
      .workspace = aligned_alloc(256, info.workspace_bytes),
      .workspace_bytes = info.workspace_bytes};
  check(kvc_layer_evict(plan, &layer, NULL));

  for (int h = 0; h < heads; ++h)
    printf("head %d keeps %d of %d tokens, from row %d: %d %d ... %d\n", h,
           counts[h], tokens, offsets[h], indices[h * rows_of_head],
           indices[h * rows_of_head + 1],
           indices[h * rows_of_head + counts[h] - 1]);

  /* The outputs are a view already: of a whole prompt, indices are positions. */
  kvc_cache_view cache = {
      .struct_size = sizeof cache,
      .kind = KVC_RAGGED,
      .dtype = KVC_F32,
      .batch = 1,
      .kv_heads = heads,
      .head_dim = dim,
      .k = {.data = layer.k_out, .row_stride = dim},
      .v = {.data = layer.v_out, .row_stride = dim},
      .counts = {counts, heads, 1},
      .lengths = &length,
      .slots = layer.out_rows,
      .offsets = {offsets, heads, 1},
      .positions = {indices, heads * rows_of_head, rows_of_head, 1, 0}};
  kvc_append_args append = {.struct_size = sizeof append,
                            .cache = &cache,
                            .k = {noise(heads * row), heads * row, row, row},
                            .v = {noise(heads * row), heads * row, row, row},
                            .rows = 1};
  check(kvc_append(&append));
  float out[heads * group * dim], lse[heads * group];
  kvc_attend_args attend = {
      .struct_size = sizeof attend,
      .cache = &cache,
      .q_heads = heads * group,
      .queries = 1,
      .q = {noise(heads * group * row), heads * group * row, row, row},
      .out = {out, heads * group * row, row, row, 0},
      .lse = lse,
      .lse_batch_stride = heads * group,
      .lse_head_stride = 1}; /* below 2048 rows a head: no workspace */
  check(kvc_attend(&attend));
  printf("token %d sees %d and %d rows, the last of token %d; %d tokens now\n",
         length - 1, counts[0], counts[1], indices[counts[0] - 1], length);
  kvc_plan_destroy(plan);
  kvc_module_close(module);
  return status;
}
