//===- Plan.h - a module, fitted to an engine's limits --------------------===//

#ifndef KVC_RUNTIME_PLAN_PLAN_H
#define KVC_RUNTIME_PLAN_PLAN_H

#include "runtime/base/Extent.h"
#include "runtime/plan/Module.h"

#include <vector>

/// Parts of a layer's work, as the ABI cuts it.
enum class Phase { Score, Select, Compact };

struct kvc_plan {
  /// Throws Failure when no variant fits.
  kvc_plan(kvc_module &module, const kvc_plan_options &options);

  kvc_plan_info query() const;
  /// Enqueues the kernels of the phases [first, last]. Throws Failure before
  /// anything is launched if an argument is wrong.
  void enqueue(const kvc_layer_args &args, Phase first, Phase last,
               void *stream) const;

  kvc_module &module;
  const kvc_plan_options options;

private:
  const kvc::rt::Variant *variant;
  /// Offsets of the buffers in the workspace, for the plan's limits.
  std::vector<uint64_t> offsets;
  uint64_t workspaceBytes = 0;
  /// KVC_READS_* and KVC_MERGES, from the kernels' arguments; asked in every
  /// call.
  uint32_t inputs = 0;

  /// Queries that scoring reads of a sequence of `tokens` tokens.
  uint32_t queriesOf(uint32_t tokens) const;
  void placeBuffers();
  void check(const kvc_layer_args &args, Phase first, Phase last) const;
  uint64_t bind(const std::string &name, const kvc_layer_args &args) const;
  kvc::rt::Symbols symbols(uint32_t batch, uint32_t tokens,
                           uint32_t indexCapacity) const;
  Phase phaseOf(size_t kernel) const;
};

#endif // KVC_RUNTIME_PLAN_PLAN_H
