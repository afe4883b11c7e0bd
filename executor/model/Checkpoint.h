//===- Checkpoint.h - the tensors of a model directory --------------------===//

#ifndef KVC_EXECUTOR_MODEL_CHECKPOINT_H
#define KVC_EXECUTOR_MODEL_CHECKPOINT_H

#include "executor/io/Safetensors.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kvc::rt {

/// DIR/model.safetensors, or the files that model.safetensors.index.json names.
/// Every function throws Failure that names file, tensor, rule and value.
class Checkpoint {
public:
  explicit Checkpoint(const std::string &dir);

  /// A tensor of F32, F16 or BF16, in the file's memory.
  const TensorView &at(const std::string &name,
                       const std::vector<uint64_t> &shape);

private:
  std::string dir;
  std::map<std::string, std::string> shardOf;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files;

  void readIndex(const std::string &path);
  const SafetensorsFile &fileOf(const std::string &name);
};

/// As fp32. F32, F16 and BF16 only.
std::vector<float> floatsOf(const TensorView &tensor);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_CHECKPOINT_H
