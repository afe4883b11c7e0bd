//===- AttendCall.cpp -----------------------------------------------------===//

#include "runtime/attend/AttendCall.h"

#include "runtime/base/Boundary.h"
#include "runtime/base/DType.h"
#include "runtime/device/Targets.h"

#include <cmath>

using namespace kvc::rt;

AttendCall::AttendCall(const kvc_attend_args &given)
    : args(given), cache(given.cache) {
  checkTarget(args.target, "target");
  const kvc_cache_view &view = cache.fields();
  if (!args.q_heads || args.q_heads % view.kv_heads)
    throw fail(KVC_BAD_ARGUMENT,
               "q_heads must be a multiple of cache.kv_heads, got {} and {}",
               args.q_heads, view.kv_heads);
  if (args.queries == 0)
    throw fail(KVC_BAD_ARGUMENT, "queries must be at least 1, got 0");
  group = args.q_heads / view.kv_heads;
  if (uint64_t(group) * args.queries > INT32_MAX)
    throw fail(KVC_EXCEEDS_LIMITS,
               "queries * q_heads / kv_heads must be below 2^31, got {} * {}",
               args.queries, group);
  mostKeys = args.max_rows ? args.max_rows : cache.mostKeys();
}

void AttendCall::check(size_t bytes) const {
  const kvc_cache_view &view = cache.fields();
  notNull(args.q.data, "q");
  notNull(args.out.data, "out");
  if (args.out_dtype != KVC_F32 && args.out_dtype != view.dtype)
    throw fail(KVC_BAD_ARGUMENT,
               "out_dtype must be 0 (f32) or the cache's, got {}",
               int(args.out_dtype));
  for (auto [data, size] : {std::pair(args.q.data, dtypeBytes(view.dtype)),
                            {args.out.data, dtypeBytes(args.out_dtype)},
                            {args.lse, sizeof(float)}})
    if (reinterpret_cast<uintptr_t>(data) % size)
      throw fail(KVC_MISALIGNED,
                 "q, out and lse must be aligned to their elements ({} bytes), "
                 "got {}",
                 size, data);
  if (!std::isfinite(args.scale))
    throw fail(KVC_BAD_ARGUMENT, "scale must be finite, got {}", args.scale);
  if (cache.members()) {
    notNull(args.rope, "rope of a merged cache");
    if (view.head_dim % 2)
      throw fail(KVC_BAD_ARGUMENT,
                 "head_dim of a merged cache must be even, got {}",
                 view.head_dim);
  }
  if (!bytes)
    return;
  notNull(args.workspace, "workspace");
  if (args.workspace_bytes < bytes)
    throw fail(KVC_WORKSPACE_TOO_SMALL, "workspace must have {} bytes, got {}",
               bytes, args.workspace_bytes);
  aligned(args.workspace, 64, "workspace");
}

float AttendCall::scale() const {
  return args.scale != 0
             ? args.scale
             : float(1 / std::sqrt(double(cache.fields().head_dim)));
}
