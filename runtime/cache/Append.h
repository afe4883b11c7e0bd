//===- Append.h - new rows behind those of a cache ------------------------===//

#ifndef KVC_RUNTIME_CACHE_APPEND_H
#define KVC_RUNTIME_CACHE_APPEND_H

#include "kvc/cache.h"

namespace kvc::rt {

/// kvc_append on the host. Throws Failure before anything is written.
void append(const kvc_append_args &args);

} // namespace kvc::rt

#endif // KVC_RUNTIME_CACHE_APPEND_H
