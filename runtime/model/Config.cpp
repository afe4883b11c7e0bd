//===- Config.cpp - config.json of a Hugging Face model -------------------===//

#include "runtime/model/Config.h"

#include "runtime/base/Failure.h"
#include "runtime/io/MappedFile.h"

#include <nlohmann/json.hpp>

#include <filesystem>

using namespace kvc::rt;
using nlohmann::json;

namespace {

json readObject(const std::string &path) {
  json object = json::parse(readText(path), nullptr, false);
  if (!object.is_object())
    throw fail(KVC_BAD_ARGUMENT, "{}: must be a JSON object", path);
  return object;
}

class Fields {
public:
  Fields(const std::string &path) : path(path), object(readObject(path)) {}

  bool has(const char *name) const {
    return object.contains(name) && !object[name].is_null();
  }
  uint32_t whole(const char *name) const {
    const json &value = get(name);
    if (!value.is_number_unsigned() || value.get<uint64_t>() == 0 ||
        value.get<uint64_t>() > 1u << 30)
      throw bad(name, "a whole number of 1 to 2^30", value);
    return value.get<uint32_t>();
  }
  double real(const char *name) const {
    const json &value = get(name);
    if (!value.is_number() || !(value.get<double>() > 0))
      throw bad(name, "a number above 0", value);
    return value.get<double>();
  }
  bool flag(const char *name, bool absent) const {
    if (!has(name))
      return absent;
    if (!object[name].is_boolean())
      throw bad(name, "true or false", object[name]);
    return object[name].get<bool>();
  }
  std::string text(const char *name, const std::string &absent) const {
    if (!has(name))
      return absent;
    if (!object[name].is_string())
      throw bad(name, "a text", object[name]);
    return object[name].get<std::string>();
  }
  Failure bad(const char *name, const std::string &rule,
              const json &value) const {
    return fail(KVC_BAD_ARGUMENT, "{}: {} must be {}, got {}", path, name, rule,
                value.dump().substr(0, 80));
  }
  const json &get(const char *name) const {
    if (!has(name))
      throw fail(KVC_BAD_ARGUMENT, "{}: {} is missing", path, name);
    return object[name];
  }

private:
  std::string path;
  json object;
};

void readEos(const Fields &fields, std::vector<uint32_t> &eos) {
  if (!fields.has("eos_token_id"))
    return;
  eos.clear();
  json value = fields.get("eos_token_id");
  for (const json &id : value.is_array() ? value : json::array({value})) {
    if (!id.is_number_unsigned())
      throw fields.bad("eos_token_id", "token ids", value);
    eos.push_back(id.get<uint32_t>());
  }
}

} // namespace

Config Config::read(const std::string &dir) {
  std::string path = dir + "/config.json";
  Fields fields(path);
  const json &architectures = fields.get("architectures");
  if (!architectures.is_array() || architectures.size() != 1 ||
      architectures[0] != "LlamaForCausalLM")
    throw fields.bad("architectures", "[\"LlamaForCausalLM\"]", architectures);
  Config config = {};
  config.layers = fields.whole("num_hidden_layers");
  config.hidden = fields.whole("hidden_size");
  config.intermediate = fields.whole("intermediate_size");
  config.vocab = fields.whole("vocab_size");
  config.qHeads = fields.whole("num_attention_heads");
  config.kvHeads = fields.has("num_key_value_heads")
                       ? fields.whole("num_key_value_heads")
                       : config.qHeads;
  if (config.qHeads % config.kvHeads)
    throw fields.bad(
        "num_attention_heads",
        fmt::format("a multiple of num_key_value_heads ({})", config.kvHeads),
        config.qHeads);
  config.headDim = fields.has("head_dim") ? fields.whole("head_dim")
                                          : config.hidden / config.qHeads;
  if (config.headDim % 2)
    throw fields.bad("head_dim", "even", config.headDim);
  config.maxPositions = fields.whole("max_position_embeddings");
  config.ropeTheta = fields.has("rope_theta") ? fields.real("rope_theta") : 1e4;
  config.normEps = fields.real("rms_norm_eps");
  config.tiedEmbeddings = fields.flag("tie_word_embeddings", false);
  if (fields.has("rope_scaling"))
    throw fields.bad("rope_scaling", "null (scaled RoPE is not implemented)",
                     fields.get("rope_scaling"));
  for (const char *bias : {"attention_bias", "mlp_bias"})
    if (fields.flag(bias, false))
      throw fields.bad(bias, "false (biases are not implemented)", true);
  if (fields.text("hidden_act", "silu") != "silu")
    throw fields.bad("hidden_act", "silu", fields.get("hidden_act"));
  std::string dtype =
      fields.text("torch_dtype", fields.text("dtype", "float32"));
  if (dtype != "float32" && dtype != "float16" && dtype != "bfloat16")
    throw fields.bad("torch_dtype", "float32, float16 or bfloat16", dtype);
  config.dtype = dtype == "float32"   ? KVC_F32
                 : dtype == "float16" ? KVC_F16
                                      : KVC_BF16;
  readEos(fields, config.eos);
  std::string generation = dir + "/generation_config.json";
  if (std::filesystem::exists(generation))
    readEos(Fields(generation), config.eos);
  return config;
}
