//===- HostEngine.h - a model on the host ---------------------------------===//

#ifndef KVC_EXECUTOR_HOST_HOSTENGINE_H
#define KVC_EXECUTOR_HOST_HOSTENGINE_H

#include "executor/engine/Engine.h"

namespace kvc::rt {

/// The plain forward pass of Transformer, in fp32; policies run as host kernels
/// in fp32 where they are compiled for it, else in the model's own type. Throws
/// Failure.
std::unique_ptr<Engine> makeHostEngine(const std::string &modelDir);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_HOST_HOSTENGINE_H
