//===- GpuActivations.cpp - a layer's queries, keys and values, on a GPU --===//

#include "executor/cuda/GpuActivations.h"

#include "runtime/base/DType.h"
#include "runtime/plan/Manifest.h"

using namespace kvc::gpu;
namespace rt = kvc::rt;

/// `rows` of `pitch` rows of each head, as fp32.
static std::vector<float> download(Queue &queue, const Buffer &from,
                                   uint32_t rows, uint32_t pitch,
                                   uint32_t width) {
  if (!from)
    return {};
  size_t element = rt::dtypeBytes(queue.dtype);
  size_t heads = from.bytes() / (size_t(pitch) * width * element);
  size_t numbers = heads * rows * width;
  Buffer dense(queue, numbers * element);
  queue.copyRows(dense.data(), rows * width * element, from.data(),
                 pitch * width * element, rows * width * element, heads);
  return queue.downloadedAsFloat(dense.data(), numbers);
}

rt::LayerActivations GpuActivations::onHost() const {
  rt::LayerActivations host;
  host.tokens = tokens;
  host.q = download(queue, q, queries, queries, config.headDim);
  host.k = download(queue, k, tokens, headRows, config.headDim);
  host.kRaw = download(queue, kRaw, tokens, tokens, config.headDim);
  host.v = download(queue, v, tokens, headRows, config.headDim);
  if (lse)
    host.lse =
        queue.downloaded<float>(lse.data(), size_t(config.qHeads) * queries);
  return host;
}
