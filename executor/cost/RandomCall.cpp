//===- RandomCall.cpp -----------------------------------------------------===//

#include "executor/cost/RandomCall.h"

#include "executor/cost/RandomMemory.h"
#include "runtime/attend/DeviceAttend.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "runtime/base/Format.h"

#include <algorithm>

using namespace kvc::rt;

/// The same total whatever the skew: heads differ by equal steps.
static std::vector<int32_t> rowsOfHeads(const CallOptions &options,
                                        uint32_t mean) {
  std::vector<int32_t> counts;
  uint32_t heads = options.kvHeads, skew = heads > 1 ? options.skew : 1;
  for (uint32_t h = 0; h < heads; ++h) {
    double share =
        heads > 1 ? 1 + (skew - 1.0) * (heads - 1 - h) / (heads - 1) : 1;
    counts.push_back(int32_t(mean * share * 2 / (skew + 1) + 0.5));
  }
  return counts;
}

RandomCall::RandomCall(const CallOptions &options, uint32_t mean,
                       kvc_target_kind target, Device &device)
    : arena(device) {
  auto heads = int64_t(options.kvHeads), d = int64_t(options.headDim);
  std::vector<int32_t> counts = rowsOfHeads(options, mean), all, offsets;
  longest = uint32_t(*std::max_element(counts.begin(), counts.end()));
  uint32_t step = std::max(1u, options.page);
  uint64_t slot = 0;
  for (uint32_t s = 0; s < options.batch; ++s)
    for (int32_t count : counts) {
      all.push_back(count);
      offsets.push_back(int32_t(slot));
      slot += (uint32_t(count) + step - 1) / step * step;
      if (slot > INT32_MAX)
        throw fail(KVC_EXCEEDS_LIMITS,
                   "rows of all heads and sequences must be at most {}, got "
                   "{} and more",
                   INT32_MAX, slot);
    }
  view.struct_size = sizeof view;
  view.kind = options.page ? KVC_PAGED : KVC_RAGGED;
  view.dtype = options.dtype;
  view.batch = options.batch;
  view.kv_heads = options.kvHeads;
  view.head_dim = options.headDim;
  for (kvc_plane *side : {&view.k, &view.v})
    *side = {randomRows(arena, slot, options.headDim, options.dtype), 0, 0, d,
             d * step};
  view.counts = {arena.upload(all), heads, 1};
  view.offsets = {arena.upload(offsets), heads, 1};
  view.lengths =
      arena.upload(std::vector<int32_t>(options.batch, int32_t(longest)));
  view.slots = uint32_t(slot);
  if (options.page) { // one list for all heads and sequences
    view.pages = view.table_entries = uint32_t(slot) / step;
    view.table = {arena.upload(shuffledPages(view.pages)), 0, 0};
    view.page_rows = options.page;
  }
  args.struct_size = sizeof args;
  args.target = target;
  args.cache = &view;
  args.q_heads = options.kvHeads * options.group;
  args.queries = options.queries ? options.queries : longest;
  int64_t rows = int64_t(args.q_heads) * args.queries;
  args.q = {randomRows(arena, uint64_t(rows) * options.batch, options.headDim,
                       options.dtype),
            rows * d, args.queries * d, d};
  args.out_dtype = options.dtype;
  args.out = {arena.fresh<std::byte>(size_t(rows * d) * options.batch *
                                     dtypeBytes(options.dtype)),
              rows * d, d, args.q_heads * d, 0};
  args.lse = arena.fresh<float>(size_t(rows) * options.batch);
  args.lse_batch_stride = rows;
  args.lse_head_stride = args.queries;
  args.max_rows = longest;
  args.workspace_bytes = deviceWorkspaceBytes(AttendCall(args));
  if (args.workspace_bytes)
    args.workspace = arena.fresh<std::byte>(args.workspace_bytes);
}
