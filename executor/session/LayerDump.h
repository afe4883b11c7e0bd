//===- LayerDump.h - a prefill's activations as an input of `apply` -------===//

#ifndef KVC_EXECUTOR_SESSION_LAYERDUMP_H
#define KVC_EXECUTOR_SESSION_LAYERDUMP_H

#include "executor/io/Safetensors.h"
#include "executor/engine/Engine.h"

namespace kvc::rt {

class LayerDump {
public:
  explicit LayerDump(const Engine &engine) : engine(engine) {}

  void add(uint32_t index, const Activations &activations);
  /// The file's contents.
  std::string text() const;

private:
  const Engine &engine;
  std::map<std::string, TensorData> tensors;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_SESSION_LAYERDUMP_H
