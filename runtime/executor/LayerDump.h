//===- LayerDump.h - a prefill's activations as an input of `apply` -------===//

#ifndef KVC_RUNTIME_EXECUTOR_LAYERDUMP_H
#define KVC_RUNTIME_EXECUTOR_LAYERDUMP_H

#include "runtime/io/Safetensors.h"
#include "runtime/executor/Engine.h"

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

#endif // KVC_RUNTIME_EXECUTOR_LAYERDUMP_H
