//===- HostOnly.h - what no GPU does yet ----------------------------------===//

#ifndef KVC_RUNTIME_CACHE_HOSTONLY_H
#define KVC_RUNTIME_CACHE_HOSTONLY_H

#include "runtime/base/Boundary.h"

namespace kvc::rt {

/// Throws Failure where another target is asked for: nobody gets the host's memory and
/// speed who wanted the GPU's.
inline void onlyOnHost(const kvc_target_kind &target, const char *what) {
  if (uint32_t(numberOf(target)) > KVC_PTX)
    throw fail(KVC_BAD_ARGUMENT,
               "target must be 0 (host), 1 (CUDA) or 2 (PTX), got {}",
               numberOf(target));
  if (target != KVC_HOST)
    throw fail(KVC_UNSUPPORTED,
               "{} on the host alone yet: target must be 0 (host), got {}",
               what, int(target));
}

} // namespace kvc::rt

#endif // KVC_RUNTIME_CACHE_HOSTONLY_H
