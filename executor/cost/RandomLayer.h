//===- RandomLayer.h - a layer of random numbers for a policy -------------===//

#ifndef KVC_EXECUTOR_COST_RANDOMLAYER_H
#define KVC_EXECUTOR_COST_RANDOMLAYER_H

#include "executor/eviction/Arena.h"
#include "kvc/cache.h"
#include "runtime/plan/Plan.h"

namespace kvc::rt {

/// What a layer is like, and what is asked of a policy.
struct LayerOptions {
  std::string policy;           // library of kvc-opt
  std::vector<uint32_t> tokens; // T, a layer each
  uint32_t kvHeads = 8, hidden = 4096;
  std::string budget, keep; // exactly one is given
  bool lse = true;          // the engine brings the log-sum-exp
  uint32_t page = 16;       // slots of a page, of a library for a paged cache
  float spread = 1;         // standard deviation of the logits
  std::string json;         // a file for the numbers; empty: none
};

/// The limits of a plan of the library's first variant, for layers of `tokens`.
kvc_plan_options limitsOf(const kvc_module &module, const LayerOptions &options,
                          uint32_t tokens);

/// One sequence's layer in device memory: queries, keys and values are normally
/// distributed, so the log-sum-exp is what it is for such.
class RandomLayer {
public:
  /// Throws Failure where the plan writes into a view that is not its cache.
  RandomLayer(const kvc_plan &plan, const LayerOptions &options,
              uint32_t tokens, uint32_t budget);
  RandomLayer(const RandomLayer &) = delete;

  /// With memory for what is prepared, into which nothing has been.
  kvc_layer_args args = {};

  /// What the policy has kept: counts and indices, the latter of counted rows alone.
  std::vector<int32_t> kept() const;

private:
  kvc_plan_info info;
  uint32_t heads, queryHeads, headDim;
  kvc_dtype dtype;
  Arena arena;
  kvc_cache_view cache = {}, into = {};

  /// All tokens, head after head; or all heads of a token beside each other, in pages in
  /// no order.
  void setView(kvc_cache_kind kind, uint32_t pageRows);
  /// In place.
  void setInto(const kvc_plan_options &options);
  /// Not cleared: the profiler must see what nobody writes.
  template <typename T> T *fresh(uint64_t count) {
    return arena.fresh<T>(count);
  }
  void *random(uint64_t count, float deviation = 1);
  kvc_rows rows(uint32_t count, uint32_t tokens, float deviation = 1);
  void setLogSumExp(float deviation);
  void setOutputs(uint32_t budget);
  void setPacked(uint32_t budget);
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_RANDOMLAYER_H
