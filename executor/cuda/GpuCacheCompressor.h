//===- GpuCacheCompressor.h - a policy over caches on a GPU ---------------===//
//
// As GpuCompressor a layer is scored, selected and compacted into memory that is
// large enough, and how much was kept is read back while the GPU is busy with the
// next layer; then the rows take the place of the layer's.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUCACHECOMPRESSOR_H
#define KVC_EXECUTOR_CUDA_GPUCACHECOMPRESSOR_H

#include "executor/cuda/Events.h"
#include "executor/cuda/GpuCache.h"
#include "executor/cuda/GpuQueries.h"
#include "executor/cuda/GpuWeights.h"
#include "runtime/plan/Plan.h"

#include <optional>

namespace kvc::gpu {

class GpuCacheCompressor : public rt::CacheCompressor {
public:
  GpuCacheCompressor(const rt::PolicyOptions &options, Queue &queue,
                     const rt::Config &config, const GpuWeights &weights);

  void begin(uint32_t length, uint32_t budget) override;
  void compress(rt::Cache &cache, rt::RecentQueries *queries,
                rt::KeptSequence *kept) override;
  void finish() override { settle(); }

  const rt::Manifest &manifest() const override { return module.manifest; }
  kvc_dtype dtype() const override { return queue.dtype; }
  bool nanScores() const override { return nan; }
  double seconds() const override { return elapsed; }

private:
  Queue &queue;
  const rt::Config &config;
  const GpuWeights &weights;
  kvc_module module;
  std::optional<kvc_plan> plan;
  kvc_plan_info info = {};
  Buffer table;

  /// For lengths of up to `planned`, and for layers of up to `rows` rows, `longest`
  /// in a head.
  Buffer workspace, state, indices, kOut, vOut, positionsOut;
  uint32_t planned = 0;
  size_t rows = 0, longest = 0;
  /// int32: counts, offsets, rows ranked [Hkv] each, status.
  Buffer results;
  Buffer limits; // length, budget
  Readback readback;
  Event begun, done; // timed, around a layer's kernels
  uint32_t length = 0, layer = 0;

  /// The layer whose rows still lie in kOut and vOut.
  struct Pending {
    GpuCache *cache;
    GpuQueries *queries;
    uint32_t layer, read; // queries that were handed over
  };
  std::optional<Pending> pending;
  bool nan = false;
  double elapsed = 0;

  int32_t *result(uint32_t list) const {
    return results.as<int32_t>() + list * config.kvHeads;
  }
  void makeRoom(const GpuCache &cache);
  kvc_layer_args arguments(const kvc_cache_view &view,
                           const GpuQueries *queries);
  void settle();
  void tell(rt::KeptSequence &kept) const;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUCACHECOMPRESSOR_H
