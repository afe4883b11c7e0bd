//===- DeviceAppend.cpp - new rows behind those of a cache, on a GPU ------===//

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "runtime/cache/Append.h"
#include "runtime/cache/ViewArgs.h"
#include "runtime/device/ViewKernels.h"

using namespace kvc;
using namespace kvc::rt;

void kvc::rt::appendOnDevice(const kvc_append_args &from,
                             const CacheView &cache) {
  const kvc_cache_view &view = cache.fields();
  uint64_t lists = uint64_t(view.batch) * view.kv_heads;
  if (lists * from.rows > INT32_MAX)
    throw fail(KVC_EXCEEDS_LIMITS,
               "batch * kv_heads * rows must be at most {}, got {}", INT32_MAX,
               lists * from.rows);
  cache.checkWritable();
  size_t bytes = dtypeBytes(view.dtype);
  gpu::AppendArgs args = {};
  args.view = viewArgs(cache, from.status);
  args.k = planeArgs(from.k, bytes);
  args.v = planeArgs(from.v, bytes);
  args.rows = from.rows;
  const ViewKernels &kernels =
      ViewKernels::on(from.target, from.device, view.dtype, view.head_dim);
  Launch rows =
      kernels.launch(ViewKernels::Append, {uint32_t(lists * from.rows), 1, 1},
                     gpu::appendThreads, args, from.stream);
  kernels.launch(ViewKernels::AppendCounts, {view.batch, 1, 1},
                 gpu::appendThreads, args, from.stream, /*sharedBytes=*/0,
                 /*front=*/&rows);
}
