//===- HostCache.h - a sequence's activations and cache, on the host ------===//

#ifndef KVC_EXECUTOR_HOST_HOSTCACHE_H
#define KVC_EXECUTOR_HOST_HOSTCACHE_H

#include "executor/engine/Engine.h"

namespace kvc::rt {

class HostActivations : public Activations {
public:
  explicit HostActivations(LayerActivations layer)
      : Activations(layer.tokens), layer(std::move(layer)) {}
  LayerActivations onHost() const override { return layer; }
  void forgetLse() override { layer.lse.clear(); }

  LayerActivations layer;
};

inline const LayerActivations &layerOf(const Activations &activations) {
  return static_cast<const HostActivations &>(activations).layer;
}

class HostCache : public Cache {
public:
  HostCache(const Config &config, kvc_dtype dtype)
      : Cache(dtype),
        layers(config.layers,
               RaggedCache(config.kvHeads, config.headDim, dtype)) {}

  std::unique_ptr<Cache> copy() const override {
    return std::make_unique<HostCache>(*this);
  }
  void append(uint32_t layer, const Activations &activations,
              uint32_t position) override {
    const LayerActivations &from = layerOf(activations);
    // A merged cache turns its keys by itself.
    const auto &k = layers[layer].merged() ? from.kRaw : from.k;
    layers[layer].append(k.data(), from.v.data(), from.tokens, position);
  }
  RaggedCache::Contents contents(uint32_t layer) const override {
    return layers[layer].contents();
  }
  void restore(uint32_t layer, const RaggedCache::Contents &c) override {
    layers[layer].append(c.counts, c.k.data(), c.v.data(), c.members,
                         c.positions);
  }
  uint32_t rows(uint32_t layer, uint32_t head) const override {
    return layers[layer].rows(head);
  }
  size_t usedBytes() const override {
    size_t bytes = 0;
    for (const RaggedCache &layer : layers)
      bytes += layer.usedBytes();
    return bytes;
  }

  std::vector<RaggedCache> layers;
};

inline std::vector<RaggedCache> &layersOf(Cache &cache) {
  return static_cast<HostCache &>(cache).layers;
}

} // namespace kvc::rt

#endif // KVC_EXECUTOR_HOST_HOSTCACHE_H
