//===- OpenEngine.h - a model on the device that was asked for ------------===//

#ifndef KVC_EXECUTOR_SESSION_OPENENGINE_H
#define KVC_EXECUTOR_SESSION_OPENENGINE_H

#include "executor/engine/Engine.h"

namespace kvc::rt {

/// The engine of a target: "host", "cuda", "ptx", or "" for cuda where a device
/// answers. Throws Failure.
std::unique_ptr<Engine> makeEngine(const std::string &modelDir,
                                   const std::string &target);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_SESSION_OPENENGINE_H
