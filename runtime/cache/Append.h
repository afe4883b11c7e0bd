//===- Append.h - new rows behind those of a cache ------------------------===//

#ifndef KVC_RUNTIME_CACHE_APPEND_H
#define KVC_RUNTIME_CACHE_APPEND_H

#include "runtime/cache/CacheView.h"

namespace kvc::rt {

/// kvc_append. On the host throws Failure before anything is written.
void append(const kvc_append_args &args);

/// Enqueues it; the arrays have not been looked at.
void appendOnDevice(const kvc_append_args &args, const CacheView &cache);

} // namespace kvc::rt

#endif // KVC_RUNTIME_CACHE_APPEND_H
