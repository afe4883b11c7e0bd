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
  /// Throws Failure.
  void write(const std::string &path) const;

private:
  const Engine &engine;
  Tensors tensors;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_SESSION_LAYERDUMP_H
