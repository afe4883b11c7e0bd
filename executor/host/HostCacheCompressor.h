//===- HostCacheCompressor.h - a policy over caches on the host -----------===//

#ifndef KVC_EXECUTOR_HOST_HOSTCACHECOMPRESSOR_H
#define KVC_EXECUTOR_HOST_HOSTCACHECOMPRESSOR_H

#include "executor/host/HostCache.h"

#include <optional>

namespace kvc::rt {

/// As in Engine::makeCacheCompressor; the policy runs on `target`.
std::unique_ptr<CacheCompressor>
makeHostCacheCompressor(const PolicyOptions &options, const kvc_target &target,
                        const Transformer &model,
                        std::optional<kvc_dtype> dtype);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_HOST_HOSTCACHECOMPRESSOR_H
