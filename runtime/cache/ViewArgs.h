//===- ViewArgs.h - a view as kernels take it -----------------------------===//

#ifndef KVC_RUNTIME_CACHE_VIEWARGS_H
#define KVC_RUNTIME_CACHE_VIEWARGS_H

#include "runtime/cache/CacheView.h"
#include "runtime/kernels/Args.h"

namespace kvc::rt {

gpu::ViewArgs viewArgs(const CacheView &cache, int32_t *status);

/// True where every row begins and ends at a multiple of 16 bytes; `outer`: the stride
/// between sequences or pages.
bool rowsAligned(const gpu::PlaneArgs &plane, int64_t outer, uint64_t rowBytes);

/// Strides from elements to bytes.
gpu::PlaneArgs planeArgs(const kvc_plane &plane, size_t elementBytes);
gpu::PlaneArgs planeArgs(const kvc_rows &rows, size_t elementBytes);

} // namespace kvc::rt

#endif // KVC_RUNTIME_CACHE_VIEWARGS_H
