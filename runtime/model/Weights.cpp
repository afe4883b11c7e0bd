//===- Weights.cpp - the tensors of a model, as fp32 ----------------------===//

#include "runtime/model/Weights.h"

#include "runtime/base/Failure.h"
#include "runtime/base/Half.h"
#include "runtime/io/Safetensors.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <memory>

using namespace kvc::rt;
using nlohmann::json;

namespace {

/// The safetensors files of a model directory.
class Shards {
public:
  explicit Shards(const std::string &dir) : dir(dir) {
    std::string single = dir + "/model.safetensors";
    std::string index = single + ".index.json";
    if (std::filesystem::exists(index))
      readIndex(index);
    else
      files[""] = std::make_unique<SafetensorsFile>(single);
  }

  std::vector<float> read(const std::string &name,
                          const std::vector<uint64_t> &shape) {
    const SafetensorsFile &file = fileOf(name);
    const TensorView &tensor = file.at(name);
    if (tensor.shape != shape)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor '{}' must have shape [{}], got {}", file.path,
                 name, fmt::join(shape, ", "), tensor.describe());
    return widen(tensor, file.path, name);
  }

private:
  std::string dir;
  std::map<std::string, std::string> shardOf;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files;

  void readIndex(const std::string &path) {
    json root = json::parse(readText(path), nullptr, false);
    if (!root.is_object() || !root.contains("weight_map") ||
        !root["weight_map"].is_object())
      throw fail(KVC_BAD_ARGUMENT, "{}: weight_map must be an object", path);
    for (auto &[name, file] : root["weight_map"].items()) {
      if (!file.is_string() ||
          file.get<std::string>().find('/') != std::string::npos)
        throw fail(KVC_BAD_ARGUMENT,
                   "{}: weight_map must name files of the directory, got {}",
                   path, file.dump());
      shardOf[name] = file.get<std::string>();
    }
  }

  const SafetensorsFile &fileOf(const std::string &name) {
    if (shardOf.empty())
      return *files.at("");
    auto it = shardOf.find(name);
    if (it == shardOf.end())
      throw fail(KVC_BAD_ARGUMENT,
                 "{}/model.safetensors.index.json: tensor '{}' is missing", dir,
                 name);
    auto &file = files[it->second];
    if (!file)
      file = std::make_unique<SafetensorsFile>(dir + "/" + it->second);
    return *file;
  }

  static std::vector<float> widen(const TensorView &tensor,
                                  const std::string &path,
                                  const std::string &name) {
    std::vector<float> values(tensor.elements());
    if (tensor.dtype == "F32") {
      std::memcpy(values.data(), tensor.data, tensor.bytes);
    } else if (tensor.dtype == "F16" || tensor.dtype == "BF16") {
      bool half = tensor.dtype == "F16";
      for (size_t i = 0; i < values.size(); ++i) {
        uint16_t bits;
        std::memcpy(&bits, tensor.data + i * 2, 2);
        values[i] = half ? fromF16(bits) : fromBF16(bits);
      }
    } else {
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: tensor '{}' must be F32, F16 or BF16, got {}", path, name,
                 tensor.describe());
    }
    return values;
  }
};

} // namespace

Weights Weights::read(const std::string &dir, const Config &c) {
  Shards shards(dir);
  uint64_t hidden = c.hidden, wide = uint64_t(c.qHeads) * c.headDim,
           narrow = uint64_t(c.kvHeads) * c.headDim;
  Weights weights;
  weights.embedding.weight =
      shards.read("model.embed_tokens.weight", {c.vocab, hidden});
  for (uint32_t i = 0; i < c.layers; ++i) {
    std::string prefix = fmt::format("model.layers.{}.", i);
    auto matrix = [&](const char *name, uint64_t out, uint64_t in, bool bias) {
      Linear linear{shards.read(prefix + name + ".weight", {out, in}), {}};
      if (bias)
        linear.bias = shards.read(prefix + name + ".bias", {out});
      return linear;
    };
    auto norm = [&](const char *name, uint64_t width) {
      return shards.read(prefix + name + ".weight", {width});
    };
    LayerWeights layer;
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
    weights.layers.push_back(std::move(layer));
  }
  weights.norm = shards.read("model.norm.weight", {hidden});
  if (!c.tiedEmbeddings)
    weights.head.weight = shards.read("lm_head.weight", {c.vocab, hidden});
  return weights;
}
