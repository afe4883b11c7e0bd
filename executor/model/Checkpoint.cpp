//===- Checkpoint.cpp - the tensors of a model directory ------------------===//

#include "executor/model/Checkpoint.h"

#include "runtime/base/Failure.h"
#include "runtime/base/DType.h"
#include "executor/io/Json.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>

using namespace kvc::rt;
using nlohmann::json;

Checkpoint::Checkpoint(const std::string &dir) : dir(dir) {
  std::string single = dir + "/model.safetensors";
  std::string index = single + ".index.json";
  if (std::filesystem::exists(index))
    readIndex(index);
  else
    files[""] = std::make_unique<SafetensorsFile>(single);
}

void Checkpoint::readIndex(const std::string &path) {
  json root = parseJson(readText(path));
  if (!root.is_object() || !root.contains("weight_map") ||
      !root["weight_map"].is_object())
    throw fail(KVC_BAD_ARGUMENT, "{}: weight_map must be an object", path);
  if (root["weight_map"].empty())
    throw fail(KVC_BAD_ARGUMENT, "{}: weight_map must name tensors, got none",
               path);
  for (auto &[name, file] : root["weight_map"].items()) {
    if (!file.is_string() ||
        file.get<std::string>().find('/') != std::string::npos)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: weight_map must name files of the directory, got {}",
                 path, quote(file));
    shardOf[name] = file.get<std::string>();
  }
}

const SafetensorsFile &Checkpoint::fileOf(const std::string &name) {
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

const TensorView &Checkpoint::at(const std::string &name,
                                 const std::vector<uint64_t> &shape) {
  const SafetensorsFile &file = fileOf(name);
  const TensorView &tensor = file.at(name);
  if (tensor.shape != shape)
    throw fail(KVC_BAD_ARGUMENT, "{}: tensor '{}' must have shape [{}], got {}",
               file.path, name, fmt::join(shape, ", "), tensor.describe());
  if (!tensor.kvcDtype())
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensor '{}' must be F32, F16 or BF16, got {}", file.path,
               name, tensor.describe());
  return tensor;
}

std::vector<float> kvc::rt::floatsOf(const TensorView &tensor) {
  return widened(tensor.data, tensor.elements(), *tensor.kvcDtype());
}
