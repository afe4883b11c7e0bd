//===- Config.cpp - config.json of a Hugging Face model -------------------===//

#include "executor/model/Config.h"

#include "runtime/base/Failure.h"
#include "executor/io/Json.h"
#include "executor/io/MappedFile.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <optional>

using namespace kvc::rt;
using nlohmann::json;

namespace {

json readObject(const std::string &path) {
  json object = parseJson(readText(path));
  if (!object.is_object())
    throw fail(KVC_BAD_ARGUMENT, "{}: must be a JSON object", path);
  return object;
}

/// The fields of a JSON object, with messages that name file and field.
class Fields {
public:
  Fields(const std::string &path) : path(path), object(readObject(path)) {}
  Fields(const std::string &path, json object)
      : path(path), object(std::move(object)) {}

  /// An object inside this one.
  Fields inner(const char *name) const {
    if (!get(name).is_object())
      throw bad(name, "an object", get(name));
    return {path, get(name)};
  }

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
  double real(const char *name, double absent) const {
    return has(name) ? real(name) : absent;
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
                quote(value));
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

/// What distinguishes the families; a null flag is read from config.json.
struct Family {
  const char *architecture;
  std::optional<bool> qkvBias, oBias, mlpBias;
  bool qkNorm;
};
const Family families[] = {
    {"LlamaForCausalLM", {}, {}, {}, false},
    {"MistralForCausalLM", false, false, false, false},
    {"Qwen2ForCausalLM", true, false, false, false},
    {"Qwen3ForCausalLM", {}, {}, false, true},
};

const Family &familyOf(const Fields &fields) {
  const json &names = fields.get("architectures");
  std::string known;
  for (const Family &family : families) {
    if (names.is_array() && names.size() == 1 &&
        names[0] == family.architecture)
      return family;
    known += std::string(known.empty() ? "" : ", ") + family.architecture;
  }
  throw fields.bad("architectures", "one of " + known, names);
}

/// Frequencies: `rope_theta` and `rope_scaling`, or both in `rope_parameters`.
void readRope(const Fields &fields, Config &config) {
  bool joined = fields.has("rope_parameters");
  Fields rope = joined ? fields.inner("rope_parameters") : fields;
  config.ropeTheta = rope.real("rope_theta", fields.real("rope_theta", 1e4));
  for (const Fields *place : {&fields, &std::as_const(rope)})
    if (place->real("partial_rotary_factor", 1) != 1)
      throw place->bad("partial_rotary_factor", "1",
                       place->get("partial_rotary_factor"));
  if (!joined && !fields.has("rope_scaling"))
    return;
  if (!joined)
    rope = fields.inner("rope_scaling");
  RopeScaling &s = config.ropeScaling;
  std::string type = rope.text("rope_type", rope.text("type", "default"));
  s.factor = rope.real("factor", 1);
  s.originalPositions =
      rope.real("original_max_position_embeddings", config.maxPositions);
  if (type == "default")
    return;
  rope.get("factor");
  if (type == "linear") {
    s.kind = RopeScaling::Kind::Linear;
  } else if (type == "llama3") {
    s.kind = RopeScaling::Kind::Llama3;
    s.lowFrequency = rope.real("low_freq_factor");
    s.highFrequency = rope.real("high_freq_factor");
    if (!(s.highFrequency > s.lowFrequency))
      throw rope.bad("high_freq_factor", "above low_freq_factor",
                     rope.get("high_freq_factor"));
  } else if (type == "yarn") {
    s.kind = RopeScaling::Kind::Yarn;
    s.betaFast = rope.real("beta_fast", s.betaFast);
    s.betaSlow = rope.real("beta_slow", s.betaSlow);
    s.truncate = rope.flag("truncate", true);
    double usual = s.factor > 1 ? 0.1 * std::log(s.factor) + 1 : 1;
    s.attentionFactor = rope.real("attention_factor", usual);
    for (const char *name : {"mscale", "mscale_all_dim"})
      if (rope.has(name))
        throw rope.bad(name, "absent (it is not implemented)", rope.get(name));
  } else {
    throw rope.bad("rope_type", "default, linear, llama3 or yarn", type);
  }
}

/// Within its window a sliding attention sees what a full one does.
void limitToWindow(const Fields &fields, Config &config) {
  if (!fields.has("sliding_window") ||
      !fields.flag("use_sliding_window",
                   config.architecture == "MistralForCausalLM"))
    return;
  config.maxPositions =
      std::min(config.maxPositions, fields.whole("sliding_window"));
}

void readEos(const Fields &fields, std::vector<uint32_t> &eos) {
  if (!fields.has("eos_token_id"))
    return;
  eos.clear();
  json value = fields.get("eos_token_id");
  for (const json &id : value.is_array() ? value : json::array({value})) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
      throw fields.bad("eos_token_id", "token ids", value);
    eos.push_back(id.get<uint32_t>());
  }
}

} // namespace

Config Config::read(const std::string &dir) {
  std::string path = dir + "/config.json";
  Fields fields(path);
  const Family &family = familyOf(fields);
  Config config = {};
  config.architecture = family.architecture;
  config.qkNorm = family.qkNorm;
  bool bias = fields.flag("attention_bias", false);
  config.qkvBias = family.qkvBias.value_or(bias);
  config.oBias = family.oBias.value_or(bias);
  config.mlpBias = family.mlpBias.value_or(fields.flag("mlp_bias", false));
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
        formatted("a multiple of num_key_value_heads ({})", config.kvHeads),
        config.qHeads);
  config.headDim = fields.has("head_dim") ? fields.whole("head_dim")
                                          : config.hidden / config.qHeads;
  if (config.headDim % 2 || config.headDim == 0)
    throw fields.bad("head_dim", "even and above 0", config.headDim);
  config.maxPositions = fields.whole("max_position_embeddings");
  readRope(fields, config);
  limitToWindow(fields, config);
  config.normEps = fields.real("rms_norm_eps", 1e-6);
  config.tiedEmbeddings = fields.flag("tie_word_embeddings", false);
  if (fields.has("quantization_config"))
    throw fields.bad("quantization_config", "absent (it is not implemented)",
                     fields.get("quantization_config"));
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
