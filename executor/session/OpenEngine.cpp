//===- OpenEngine.cpp - a model on the device that was asked for ----------===//

#include "executor/session/OpenEngine.h"

#include "executor/host/HostEngine.h"
#include "runtime/base/Failure.h"

#ifdef KVC_GPU
#include "executor/cuda/GpuEngine.h"
#endif

using namespace kvc::rt;

std::unique_ptr<Engine> kvc::rt::makeEngine(const std::string &modelDir,
                                            const std::string &name) {
  kvc_target target = chooseTarget(name);
  if (target.kind != KVC_CUDA)
    return makeHostEngine(modelDir, target);
#ifdef KVC_GPU
  return gpu::makeGpuEngine(modelDir, target.device);
#else
  throw fail(KVC_UNSUPPORTED,
             "built without the GPU executor, whose kernels need clang with "
             "its NVPTX target; take --target host");
#endif
}
