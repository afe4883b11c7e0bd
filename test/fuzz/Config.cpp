//===- Config.cpp - config.json, and a model made by it ------------------===//

#include "test/fuzz/Target.h"

#include "executor/session/OpenEngine.h"

using namespace kvc;

/// The weights stay as they are: a config must fit them or be refused.
KVC_FUZZ_TARGET(config) {
  static const std::string model = fuzz::copyOf(KVC_FIXTURES "/models/llama");
  fuzz::file(bytes, model + "/config.json");
  rt::makeEngine(model, "host");
}

KVC_FUZZ_TARGET(generation_config) {
  static const std::string model = fuzz::copyOf(KVC_FIXTURES "/models/qwen2");
  fuzz::file(bytes, model + "/generation_config.json");
  rt::Config::read(model);
}
