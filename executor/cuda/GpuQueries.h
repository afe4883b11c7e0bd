//===- GpuQueries.h - the last queries of a sequence, on a GPU ------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUQUERIES_H
#define KVC_EXECUTOR_CUDA_GPUQUERIES_H

#include "executor/cuda/GpuActivations.h"

namespace kvc::gpu {

class GpuQueries : public rt::RecentQueries {
public:
  GpuQueries(Queue &queue, const rt::Config &config, uint32_t most)
      : RecentQueries(most), queue(queue), config(config),
        layers(config.layers) {}

  std::unique_ptr<RecentQueries> copy() const override;
  void add(uint32_t layer, const rt::Activations &activations) override;
  void evicted(uint32_t layer) override { layers[layer].fresh = 0; }
  uint32_t count(uint32_t layer) const override { return layers[layer].count; }
  std::vector<float> last(uint32_t layer, uint32_t rows) const override;
  std::vector<float> lse(uint32_t layer, uint32_t rows) const override;
  void restore(uint32_t layer, const std::vector<float> &q) override;

  /// A layer without a query has rows of zeros.
  void makeRows(uint32_t layer) {
    if (!layers[layer].q)
      append(layers[layer], {}, {}, 0);
  }
  /// The last `rows` queries of a layer where they are, strides in elements. Up to
  /// `most`: in front of the first token's are rows of zeros.
  kvc_rows rowsOf(uint32_t layer, uint32_t rows) const;
  /// Their log-sum-exp, with `room` from one head to the next; null where some of
  /// them is from before the layer's last eviction.
  const float *lseOf(uint32_t layer, uint32_t rows) const;
  uint32_t room(uint32_t layer) const { return layers[layer].room; }

private:
  /// q [Hq, room, d], lse [Hq, room]; from `first` on the last `stored` rows, of
  /// which `count` are queries and those in front zeros.
  struct Layer {
    Buffer q, lse;
    uint32_t first = 0, stored = 0, count = 0, room = 0;
    uint64_t fresh = 0; // tokens since rows have gone
  };
  Queue &queue;
  const rt::Config &config;
  std::vector<Layer> layers;

  size_t rowBytes() const;
  /// Appends the last of `tokens` queries; `lse` may be empty.
  void append(Layer &layer, const Buffer &q, const Buffer &lse,
              uint32_t tokens);
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUQUERIES_H
