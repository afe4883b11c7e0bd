//===- CacheFile.h - a compressed cache that outlives its process ---------===//
//
// safetensors: per layer what `kvc-run apply` writes (counts, k, v, positions of the
// rows, and for merged caches members.*), the last queries q F32 [Hq, n, d] where the
// session keeps them, `logits` F32 [vocab] of the last token, and in the
// metadata the format (kvc_cache), the position behind the cache, and the
// model's architecture and layer count, which a reader checks.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_SESSION_CACHEFILE_H
#define KVC_EXECUTOR_SESSION_CACHEFILE_H

#include "executor/session/Session.h"

namespace kvc::rt {

/// Writes the file; whole or not at all. Throws Failure.
void saveCache(const Session &session, const std::string &path);
/// The session of a file. Throws Failure that names file, rule and value where
/// it is malformed or another model's.
Session loadCache(const Engine &engine, const std::string &path);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_SESSION_CACHEFILE_H
