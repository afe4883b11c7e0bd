//===- Workers.h - numbered work on several threads -----------------------===//

#ifndef KVC_RUNTIME_ATTEND_WORKERS_H
#define KVC_RUNTIME_ATTEND_WORKERS_H

#include <cstdint>

namespace kvc::rt {

/// Calls work(context, i) for each i below `count`, on up to `threads` threads, of
/// which the caller's is one, and returns when all is done. Threads are started
/// for the call: it keeps none, and allocates nothing itself. `work` must not throw.
void runNumbered(uint64_t count, unsigned threads, void *context,
                 void (*work)(void *context, uint64_t i));

} // namespace kvc::rt

#endif // KVC_RUNTIME_ATTEND_WORKERS_H
