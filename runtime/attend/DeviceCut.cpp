//===- DeviceCut.cpp ------------------------------------------------------===//

#include "runtime/attend/DeviceCut.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc;
using namespace kvc::rt;

namespace {

/// With fewer items than `few`, keys are split such that there are about `enough` blocks:
/// what fills a GPU of today, which holds one block of 32 rows a warp on a multiprocessor
/// at once, two of 16 and of few rows. Of those four times as many are slower, a token at
/// 32768 rows 63 us for 49 on an H200. A split has at least `keys`, or adding up its sums
/// costs more than it saves.
struct Fill {
  uint64_t few, enough, keys;
};
constexpr Fill fillOf(gpu::Sharing sharing) {
  constexpr Fill fills[] = {
      {256, 256, 128}, {128, 256, 256}, {96, 128, 4096}, {96, 128, 4096}};
  return fills[uint32_t(sharing)];
}

} // namespace

static uint64_t ceilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

DeviceCut::DeviceCut(const AttendCall &call, bool together) {
  const kvc_cache_view &view = call.cache.fields();
  auto bytes = uint32_t(dtypeBytes(view.dtype));
  width = gpu::attentionWidth(view.head_dim);
  uint64_t headRows = uint64_t(call.group) * call.args.queries;
  uint64_t heads = uint64_t(view.batch) * view.kv_heads;
  sharing = gpu::attentionSharing(bytes, width, headRows, call.cache.members(),
                                  together);
  threads = gpu::attentionThreads(bytes, width, sharing);
  sharedBytes = gpu::attentionLaunchBytes(bytes, width, sharing);
  blocks =
      uint32_t(ceilDiv(headRows, gpu::attentionRows(bytes, width, sharing)));
  uint64_t all = heads * blocks, rows = heads * headRows;
  if (std::max(all, rows) > INT32_MAX)
    throw fail(KVC_EXCEEDS_LIMITS,
               "batch * q_heads * queries must be at most {}, got {}",
               INT32_MAX, rows);
  items = uint32_t(all);
  outputRows = uint32_t(rows);
  splits = 1;
  splitKeys = INT32_MAX;
  if (Fill fill = fillOf(sharing); items < fill.few) {
    uint64_t keys = ceilDiv(call.mostKeys * items, fill.enough);
    splitKeys = uint32_t(ceilDiv(std::max(keys, fill.keys), 64) * 64);
    splits = uint32_t(std::max<uint64_t>(1, ceilDiv(call.mostKeys, splitKeys)));
  }
  size_t partBytes = (view.head_dim + 2) * sizeof(float);
  workspaceBytes = splits > 1 ? rows * splits * partBytes : 0;
  // Fewer rows are cut into more splits. Splits of a call are at most
  // enough / its items + 1, and its rows those of its items.
  mostWorkspaceBytes = 0;
  for (gpu::Sharing other : gpu::allSharings) {
    if (other > sharing)
      break;
    uint64_t rowsOf =
        std::min<uint64_t>(headRows, gpu::attentionRows(bytes, width, other));
    Fill fill = fillOf(other);
    if (call.mostKeys <= fill.keys)
      continue;
    uint64_t whole = std::min(rows, fill.few * rowsOf);
    uint64_t most = std::min(fill.enough * rowsOf + whole,
                             whole * ceilDiv(call.mostKeys, fill.keys));
    mostWorkspaceBytes = std::max<size_t>(mostWorkspaceBytes, most * partBytes);
  }
}
