//===- HostQueries.h - the last queries of a sequence, on the host --------===//

#ifndef KVC_EXECUTOR_HOST_HOSTQUERIES_H
#define KVC_EXECUTOR_HOST_HOSTQUERIES_H

#include "executor/host/HostCache.h"

namespace kvc::rt {

/// The last rows of some heads, gathered piece by piece.
class Tail {
public:
  /// Appends `tokens` rows of each head, `width` numbers each, and forgets all but
  /// the last `most`; KVC_ALL_QUERIES is more than any sequence has.
  void append(const std::vector<float> &values, uint32_t tokens, size_t width,
              size_t most);
  /// Of all heads, all rows or the last `rows` of `width` numbers.
  std::vector<float> joined() const;
  std::vector<float> joined(size_t rows, size_t width) const;

private:
  std::vector<std::vector<float>> heads; // [heads][rows * width]
};

class HostQueries : public RecentQueries {
public:
  HostQueries(const Config &config, uint32_t most)
      : RecentQueries(most), config(config), layers(config.layers) {}

  std::unique_ptr<RecentQueries> copy() const override {
    return std::make_unique<HostQueries>(*this);
  }
  void add(uint32_t layer, const Activations &activations) override;
  void evicted(uint32_t layer) override { layers[layer].fresh = 0; }
  uint32_t count(uint32_t layer) const override { return layers[layer].count; }
  std::vector<float> last(uint32_t layer, uint32_t rows) const override {
    return layers[layer].q.joined(rows, config.headDim);
  }
  std::vector<float> lse(uint32_t layer, uint32_t rows) const override;
  void restore(uint32_t layer, const std::vector<float> &q) override;

private:
  struct Layer {
    Tail q, lse;
    uint32_t count = 0;
    uint64_t fresh = 0; // tokens since rows have gone
  };
  const Config &config;
  std::vector<Layer> layers;

  void add(Layer &layer, const std::vector<float> &q, uint32_t tokens);
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_HOST_HOSTQUERIES_H
