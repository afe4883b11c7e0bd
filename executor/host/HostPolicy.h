//===- HostPolicy.h - a policy beside a model on the host -----------------===//

#ifndef KVC_EXECUTOR_HOST_HOSTPOLICY_H
#define KVC_EXECUTOR_HOST_HOSTPOLICY_H

#include "executor/engine/Engine.h"
#include "executor/eviction/Evictor.h"
#include "executor/eviction/MergedRows.h"
#include "executor/model/Transformer.h"

#include <list>
#include <optional>

namespace kvc::rt {

/// Numbers in a policy's element type, for as long as this lives; fp32 is handed over
/// as it is.
class Elements {
public:
  explicit Elements(kvc_dtype type) : type(type) {}
  const std::byte *of(const std::vector<float> &values);

private:
  const kvc_dtype type;
  std::list<std::vector<std::byte>> narrowed;
};

/// What a policy needs from layer to layer, whether it compresses a prompt or a cache.
class HostPolicy {
public:
  /// For the first of these kinds of cache that the policy is compiled for, or the
  /// last. Without a `dtype` fp32, where the policy is compiled for it and this kind
  /// of cache, else the model's own type. Throws Failure, also for a table that does
  /// not fit.
  HostPolicy(const PolicyOptions &options, const kvc_target &target,
             const Transformer &model,
             std::initializer_list<kvc_cache_kind> caches,
             std::optional<kvc_dtype> dtype = {});

  /// Before the layers of a sequence of `length` tokens.
  void begin(uint32_t length, uint32_t budget);
  /// A plan for at least so many tokens. Throws Failure where the policy is not
  /// compiled for the model and this kind of cache.
  void planFor(uint32_t tokens);
  /// What is kept of the running layer, whose rows and queries are in `sequence`; goes
  /// on to the next.
  KeptSequence evict(LayerSequence sequence, Elements &elements);

  const Manifest &manifest() const { return evictor.manifest(); }
  /// What kept rows carry, by name.
  RaggedCache::States statesOf(const KeptSequence &kept) const;

  const Transformer &model;
  Evictor evictor;
  const kvc_cache_kind cache;
  const kvc_dtype type;
  uint32_t tokens = 0, budget = 0; // of the sequence
  uint32_t layer = 0;              // the running one
  uint32_t planned = 0;            // most tokens of the plan
  bool nan = false;
  double elapsed = 0;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_HOST_HOSTPOLICY_H
