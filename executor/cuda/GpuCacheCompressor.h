//===- GpuCacheCompressor.h - a policy over caches on a GPU ---------------===//
//
// As GpuCompressor a layer is scored, selected and compacted into memory that is
// large enough, and how much was kept is read back while the GPU is busy with the
// next layer; then the rows take the place of the layer's.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUCACHECOMPRESSOR_H
#define KVC_EXECUTOR_CUDA_GPUCACHECOMPRESSOR_H

#include "executor/cuda/GpuCache.h"
#include "executor/cuda/GpuPolicy.h"
#include "executor/cuda/GpuQueries.h"
#include "executor/cuda/RopeTable.h"

namespace kvc::gpu {

class GpuCacheCompressor : public rt::CacheCompressor {
public:
  /// `rope` outlives it.
  GpuCacheCompressor(const rt::PolicyOptions &options, Queue &queue,
                     const rt::Config &config, const GpuWeights &weights,
                     RopeTable &rope);

  void begin(uint32_t length, uint32_t budget, uint32_t newTokens,
             uint32_t since) override;
  void compress(rt::Cache &cache, rt::RecentQueries *queries,
                rt::KeptSequence *kept) override;
  void finish() override { settle(); }

  const rt::Manifest &manifest() const override {
    return policy.module.manifest;
  }
  kvc_dtype dtype() const override { return queue.dtype; }
  bool nanScores() const override { return policy.nan; }
  double seconds() const override { return policy.elapsed; }

private:
  Queue &queue;
  const rt::Config &config;
  GpuPolicy policy;
  RopeTable &rope;

  /// For layers of up to `rows` rows, `longest` in a head.
  Buffer indices, kOut, vOut, positionsOut;
  size_t rows = 0, longest = 0;
  uint32_t newQueries = 0; // of the run

  /// The layer whose rows still lie in kOut and vOut.
  struct Pending {
    GpuCache *cache;
    GpuQueries *queries;
    uint32_t layer, read; // queries that were handed over
  };
  std::optional<Pending> pending;
  kvc_member_table members = {}; // of the running layer

  void makeRoom(const GpuCache &cache);
  kvc_layer_args arguments(const kvc_cache_view &view,
                           const GpuQueries *queries);
  /// No row has gone from the running layer.
  bool isWhole(const GpuCache &cache) const;
  void settle();
  void tell(rt::KeptSequence &kept) const;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUCACHECOMPRESSOR_H
