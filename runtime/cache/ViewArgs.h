//===- ViewArgs.h - a view as kernels take it -----------------------------===//

#ifndef KVC_RUNTIME_CACHE_VIEWARGS_H
#define KVC_RUNTIME_CACHE_VIEWARGS_H

#include "runtime/cache/CacheView.h"
#include "runtime/kernels/Args.h"

namespace kvc::rt {

gpu::ViewArgs viewArgs(const CacheView &cache, int32_t *status);

/// Strides from elements to bytes.
gpu::PlaneArgs planeArgs(const kvc_plane &plane, size_t elementBytes);
gpu::PlaneArgs planeArgs(const kvc_rows &rows, size_t elementBytes);

} // namespace kvc::rt

#endif // KVC_RUNTIME_CACHE_VIEWARGS_H
