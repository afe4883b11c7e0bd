//===- HostEngine.h - a model on the host ---------------------------------===//

#ifndef KVC_EXECUTOR_HOST_HOSTENGINE_H
#define KVC_EXECUTOR_HOST_HOSTENGINE_H

#include "executor/engine/Engine.h"

namespace kvc::rt {

/// The plain forward pass of Transformer, in fp32; policies run on
/// `target`, KVC_HOST or KVC_PTX, in fp32 where they are compiled for it, else in
/// the model's own type. Throws Failure.
std::unique_ptr<Engine> makeHostEngine(const std::string &modelDir,
                                       const kvc_target &target);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_HOST_HOSTENGINE_H
