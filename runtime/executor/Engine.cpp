//===- Engine.cpp - a model on a device -----------------------------------===//

#include "runtime/executor/Engine.h"

#include "runtime/base/Failure.h"
#include "runtime/executor/HostEngine.h"

using namespace kvc::rt;

std::unique_ptr<Engine> kvc::rt::makeEngine(const std::string &modelDir,
                                            const std::string &target) {
  if (chooseTarget(target).kind == KVC_CUDA)
    throw fail(KVC_UNSUPPORTED, "no GPU engine yet");
  return makeHostEngine(modelDir);
}
