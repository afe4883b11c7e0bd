//===- Workers.h - threads that wait for the next grid --------------------===//

#ifndef KVC_EMULATOR_WORKERS_H
#define KVC_EMULATOR_WORKERS_H

#include <functional>

namespace kvc::rt {

/// Runs `work` in the caller's thread and in up to `others` beside it, and returns when
/// all are done. Once the caller's has returned there must be nothing left to do: a
/// thread that has not begun by then, as other programs have the cores, is not waited
/// for. The threads are kept: what they have of their own, stacks of an emulated block
/// say, is made once and not at every launch. Any thread may call it, several at a
/// time; `work` must not throw.
void runBeside(unsigned others, const std::function<void()> &work);

} // namespace kvc::rt

#endif // KVC_EMULATOR_WORKERS_H
