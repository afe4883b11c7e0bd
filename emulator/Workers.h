//===- Workers.h - threads that wait for the next grid --------------------===//

#ifndef KVC_EMULATOR_WORKERS_H
#define KVC_EMULATOR_WORKERS_H

#include <functional>

namespace kvc::rt {

/// Runs `work` in `others` threads beside the caller's, and in the caller's, and
/// returns when all are done. The threads are kept: what they have of their own,
/// stacks of an emulated block say, is made once and not at every launch. Any thread
/// may call it, several at a time; `work` must not throw.
void runBeside(unsigned others, const std::function<void()> &work);

} // namespace kvc::rt

#endif // KVC_EMULATOR_WORKERS_H
