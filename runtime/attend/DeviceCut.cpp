//===- DeviceCut.cpp ------------------------------------------------------===//

#include "runtime/attend/DeviceCut.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "runtime/kernels/AttentionState.h"

#include <algorithm>

using namespace kvc;
using namespace kvc::rt;

/// Blocks that fill a GPU of today a few times over; with as many no keys are split.
static constexpr uint64_t enoughBlocks(bool byKeys) {
  return byKeys ? 1024 : 256;
}
static constexpr uint32_t fewestKeys = 256; // of a split

static uint64_t ceilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

DeviceCut::DeviceCut(const AttendCall &call) {
  const kvc_cache_view &view = call.cache.fields();
  auto bytes = uint32_t(dtypeBytes(view.dtype));
  width = gpu::attentionWidth(view.head_dim);
  threads = gpu::attentionThreads(bytes, width);
  uint64_t headRows = uint64_t(call.group) * call.args.queries;
  uint64_t heads = uint64_t(view.batch) * view.kv_heads;
  uint32_t few = gpu::attentionRows(bytes, width, true),
           many = gpu::attentionRows(bytes, width, false);
  byKeys = headRows <= few;
  blocks = uint32_t(ceilDiv(headRows, byKeys ? few : many));
  uint64_t all = heads * blocks, rows = heads * headRows;
  if (std::max(all, rows) > INT32_MAX)
    throw fail(KVC_EXCEEDS_LIMITS,
               "batch * q_heads * queries must be at most {}, got {}",
               INT32_MAX, rows);
  items = uint32_t(all);
  outputRows = uint32_t(rows);
  splits = 1;
  splitKeys = INT32_MAX;
  if (uint64_t enough = enoughBlocks(byKeys); items < enough / 2) {
    uint64_t keys = ceilDiv(call.mostKeys * items, enough);
    splitKeys =
        uint32_t(ceilDiv(std::max<uint64_t>(keys, fewestKeys), 64) * 64);
    splits = uint32_t(std::max<uint64_t>(1, ceilDiv(call.mostKeys, splitKeys)));
  }
  size_t partBytes = (view.head_dim + 2) * sizeof(float);
  workspaceBytes = splits > 1 ? rows * splits * partBytes : 0;
  // Fewer rows are cut into more splits. Splits of a call are at most
  // enoughBlocks / its items + 1, and its rows those of its items.
  mostWorkspaceBytes = 0;
  if (call.mostKeys <= fewestKeys)
    return;
  for (bool keys : {true, false}) {
    if (!keys && byKeys)
      break;
    uint64_t rowsOf =
        std::min<uint64_t>(headRows, gpu::attentionRows(bytes, width, keys));
    uint64_t enough = enoughBlocks(keys);
    uint64_t whole = std::min(rows, enough / 2 * rowsOf);
    uint64_t most = std::min(enough * rowsOf + whole,
                             whole * ceilDiv(call.mostKeys, fewestKeys));
    mostWorkspaceBytes = std::max<size_t>(mostWorkspaceBytes, most * partBytes);
  }
}
