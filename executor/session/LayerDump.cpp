//===- LayerDump.cpp - a prefill's activations as an input of `apply` -----===//

#include "executor/session/LayerDump.h"

#include "runtime/base/Failure.h"

#include <cmath>

using namespace kvc::rt;

void LayerDump::add(uint32_t index, const Activations &activations) {
  LayerActivations layer = activations.onHost();
  const Config &config = engine.config;
  std::string prefix = formatted("layers.{}.", index);
  uint64_t tokens = layer.tokens, d = config.headDim;
  auto put = [&](const char *name, std::vector<uint64_t> shape,
                 const std::vector<float> &values) {
    tensors[prefix + name] = TensorData::of("F32", std::move(shape), values);
  };
  put("q", {config.qHeads, tokens, d}, layer.q);
  put("k", {config.kvHeads, tokens, d}, layer.k);
  put("k_raw", {config.kvHeads, tokens, d}, layer.kRaw);
  put("v", {config.kvHeads, tokens, d}, layer.v);
  put("lse", {config.qHeads, tokens}, layer.lse);
  put("wo", {config.hidden, config.qHeads * d}, engine.outputProjection(index));
}

void LayerDump::write(const std::string &path) const {
  const Config &config = engine.config;
  std::map<std::string, std::string> metadata = {
      {"scale", formatted("{}", 1.0 / std::sqrt(double(config.headDim)))}};
  // The format's angles are unscaled.
  if (config.ropeScaling.kind == RopeScaling::Kind::None)
    metadata["rope_theta"] = formatted("{}", config.ropeTheta);
  writeTensors({{path, tensors, metadata}});
}
