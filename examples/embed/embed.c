/* embed.c - one layer of a cache, evicted by a policy that is linked in.
 *
 * What an engine does for each layer behind its attention: fill in where things
 * are, call one function. Here on the host target, so that it runs anywhere.
 */
#include "kvc/host.h"
#include "kvc/kvc.h"
#include "snapkv.h"

#include <stdio.h>
#include <stdlib.h>

enum { heads = 2, group = 4, dim = 64, tokens = 512, budget = 96 };

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
  int32_t indices[heads * budget], offsets[heads];
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
      .index_capacity = budget,
      .counts = counts,
      .past = &past,
      .status = &status,
      .offsets = offsets,
      .k_out = noise(heads * budget * row),
      .v_out = noise(heads * budget * row),
      .out_rows = heads * budget,
      .workspace = aligned_alloc(256, info.workspace_bytes),
      .workspace_bytes = info.workspace_bytes};
  check(kvc_layer_evict(plan, &layer, NULL));

  for (int h = 0; h < heads; ++h)
    printf("head %d keeps %d of %d tokens, from row %d: %d %d ... %d\n", h,
           counts[h], tokens, offsets[h], indices[h * budget],
           indices[h * budget + 1], indices[h * budget + counts[h] - 1]);
  kvc_plan_destroy(plan);
  kvc_module_close(module);
  return status;
}
