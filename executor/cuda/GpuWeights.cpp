//===- GpuWeights.cpp - a model's tensors in a GPU's memory ---------------===//

#include "executor/cuda/GpuWeights.h"

#include "executor/model/RaggedCache.h"
#include "runtime/base/DType.h"
#include "runtime/plan/Manifest.h"

using namespace kvc::gpu;
namespace rt = kvc::rt;
using rt::LinearOf;
using rt::TensorView;

static Buffer load(Queue &queue, const TensorView &tensor) {
  bool matrix = tensor.shape.size() == 2;
  kvc_dtype type = matrix ? queue.dtype : KVC_F32;
  Buffer buffer(queue, tensor.elements() * rt::dtypeBytes(type));
  if (tensor.kvcDtype() == type) {
    queue.upload(buffer.data(), tensor.data, tensor.bytes);
    return buffer;
  }
  std::vector<float> wide = rt::floatsOf(tensor);
  queue.upload(buffer.data(), rt::narrow(wide.data(), wide.size(), type).data(),
               buffer.bytes());
  return buffer;
}

/// One behind the other. Parts that are not there make none.
static Buffer join(Queue &queue, std::initializer_list<const Buffer *> parts) {
  size_t bytes = 0;
  for (const Buffer *part : parts)
    bytes += part->bytes();
  if (!bytes)
    return {};
  Buffer all(queue, bytes);
  size_t at = 0;
  for (const Buffer *part : parts) {
    queue.copy(all.data(at), part->data(), part->bytes());
    at += part->bytes();
  }
  return all;
}

GpuWeights::GpuWeights(Queue &queue, const std::string &dir,
                       const rt::Config &config) {
  rt::Checkpoint checkpoint(dir);
  auto take = [&](const TensorView &tensor) { return load(queue, tensor); };
  outer = rt::readOuter<Buffer>(checkpoint, config, take);
  for (uint32_t i = 0; i < config.layers; ++i) {
    auto from = rt::readLayer<Buffer>(checkpoint, config, i, take);
    GpuLayer &to = layers.emplace_back();
    to.attentionNorm = std::move(from.attentionNorm);
    to.queryNorm = std::move(from.queryNorm);
    to.keyNorm = std::move(from.keyNorm);
    to.mlpNorm = std::move(from.mlpNorm);
    to.qkv = {join(queue, {&from.q.weight, &from.k.weight, &from.v.weight}),
              join(queue, {&from.q.bias, &from.k.bias, &from.v.bias})};
    to.o = std::move(from.o);
    to.gateUp = {join(queue, {&from.gate.weight, &from.up.weight}),
                 join(queue, {&from.gate.bias, &from.up.bias})};
    to.down = std::move(from.down);
  }
}
