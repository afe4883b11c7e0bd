//===- Checkpoint.cpp - a model's weights, and where they lie ------------===//

#include "test/fuzz/Target.h"

#include "executor/session/OpenEngine.h"

using namespace kvc;

KVC_FUZZ_TARGET(weights) {
  static const std::string model = fuzz::copyOf(KVC_FIXTURES "/models/qwen3");
  fuzz::file(bytes, model + "/model.safetensors");
  rt::makeEngine(model, "host");
}

KVC_FUZZ_TARGET(weights_index) {
  static const std::string model =
      fuzz::copyOf(KVC_FIXTURES "/models/mistral_sharded");
  fuzz::file(bytes, model + "/model.safetensors.index.json");
  rt::makeEngine(model, "host");
}
