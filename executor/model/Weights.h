//===- Weights.h - the tensors of a model, wherever they live -------------===//

#ifndef KVC_EXECUTOR_MODEL_WEIGHTS_H
#define KVC_EXECUTOR_MODEL_WEIGHTS_H

#include "executor/model/Checkpoint.h"
#include "executor/model/Config.h"

#include "runtime/base/Format.h"

#include <string>
#include <vector>

namespace kvc::rt {

/// y = W x + b; matrices are [out, in] as Hugging Face stores them. A tensor
/// that the model does not have is left as made by default.
template <typename Tensor> struct LinearOf {
  Tensor weight; // [out, in]
  Tensor bias;   // [out]
};

template <typename Tensor> struct LayerWeightsOf {
  Tensor attentionNorm;            // [hidden]
  LinearOf<Tensor> q;              // [Hq * d, hidden]
  LinearOf<Tensor> k, v;           // [Hkv * d, hidden]
  Tensor queryNorm, keyNorm;       // [d]
  LinearOf<Tensor> o;              // [hidden, Hq * d]
  Tensor mlpNorm;                  // [hidden]
  LinearOf<Tensor> gate, up, down; // [intermediate, hidden], its transpose
};

/// One layer; `load` makes a Tensor of a TensorView. Throws Failure that names
/// a missing or misshapen tensor.
template <typename Tensor, typename Load>
LayerWeightsOf<Tensor> readLayer(Checkpoint &checkpoint, const Config &c,
                                 uint32_t index, Load load) {
  uint64_t hidden = c.hidden, wide = uint64_t(c.qHeads) * c.headDim,
           narrow = uint64_t(c.kvHeads) * c.headDim;
  std::string prefix = formatted("model.layers.{}.", index);
  auto matrix = [&](const char *name, uint64_t out, uint64_t in, bool bias) {
    LinearOf<Tensor> linear;
    linear.weight = load(checkpoint.at(prefix + name + ".weight", {out, in}));
    if (bias)
      linear.bias = load(checkpoint.at(prefix + name + ".bias", {out}));
    return linear;
  };
  auto norm = [&](const char *name, uint64_t width) {
    return load(checkpoint.at(prefix + name + ".weight", {width}));
  };
  LayerWeightsOf<Tensor> layer;
  layer.attentionNorm = norm("input_layernorm", hidden);
  layer.q = matrix("self_attn.q_proj", wide, hidden, c.qkvBias);
  layer.k = matrix("self_attn.k_proj", narrow, hidden, c.qkvBias);
  layer.v = matrix("self_attn.v_proj", narrow, hidden, c.qkvBias);
  if (c.qkNorm) {
    layer.queryNorm = norm("self_attn.q_norm", c.headDim);
    layer.keyNorm = norm("self_attn.k_norm", c.headDim);
  }
  layer.o = matrix("self_attn.o_proj", hidden, wide, c.oBias);
  layer.mlpNorm = norm("post_attention_layernorm", hidden);
  layer.gate = matrix("mlp.gate_proj", c.intermediate, hidden, c.mlpBias);
  layer.up = matrix("mlp.up_proj", c.intermediate, hidden, c.mlpBias);
  layer.down = matrix("mlp.down_proj", hidden, c.intermediate, c.mlpBias);
  return layer;
}

/// What stands before and behind the layers.
template <typename Tensor> struct OuterWeightsOf {
  Tensor embedding; // [vocab, hidden]
  Tensor norm;      // [hidden]
  Tensor head;      // [vocab, hidden]; none if tied
};

template <typename Tensor, typename Load>
OuterWeightsOf<Tensor> readOuter(Checkpoint &checkpoint, const Config &c,
                                 Load load) {
  OuterWeightsOf<Tensor> outer;
  outer.embedding =
      load(checkpoint.at("model.embed_tokens.weight", {c.vocab, c.hidden}));
  outer.norm = load(checkpoint.at("model.norm.weight", {c.hidden}));
  if (!c.tiedEmbeddings)
    outer.head = load(checkpoint.at("lm_head.weight", {c.vocab, c.hidden}));
  return outer;
}

/// The weights as fp32 on the host.
using Linear = LinearOf<std::vector<float>>;
using LayerWeights = LayerWeightsOf<std::vector<float>>;

struct Weights : OuterWeightsOf<std::vector<float>> {
  std::vector<LayerWeights> layers;

  static Weights read(const std::string &dir, const Config &config) {
    Checkpoint checkpoint(dir);
    Weights weights{readOuter<std::vector<float>>(checkpoint, config, floatsOf),
                    {}};
    for (uint32_t i = 0; i < config.layers; ++i)
      weights.layers.push_back(
          readLayer<std::vector<float>>(checkpoint, config, i, floatsOf));
    return weights;
  }
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_WEIGHTS_H
