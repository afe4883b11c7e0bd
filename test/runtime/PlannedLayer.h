//===- PlannedLayer.h - a small policy, planned and called ----------------===//

#ifndef KVC_TEST_RUNTIME_PLANNEDLAYER_H
#define KVC_TEST_RUNTIME_PLANNEDLAYER_H

#include "kvc/host.h"
#include "test/runtime/OneLayer.h"

#include <gtest/gtest.h>

#include <string>

namespace kvc::test {

/// The kernel of policies that do nothing, named "score".
inline void nothing(kvc_simt_thread *, const uint64_t *) {}
constexpr kvc_host_entry nothingKernels[] = {{"score", nothing, 0, nullptr, 0}};

/// A policy whose manifest has nothingKernels, for plans and calls that a test has
/// changed.
class PlannedLayer {
public:
  explicit PlannedLayer(std::string manifest) : text(std::move(manifest)) {
    artifact = artifactOf(text, nothingKernels);
    kvc_target target = {};
    target.struct_size = sizeof target;
    kvc_enable_host();
    opened = kvc_module_open(&artifact, &target, &module);
    layer.scale = 1;
  }
  ~PlannedLayer() {
    kvc_plan_destroy(plan);
    kvc_module_close(module);
  }
  PlannedLayer(const PlannedLayer &) = delete;

  /// Opened and planned.
  kvc_status create() {
    return opened ? opened : kvc_plan_create(module, &options, &plan);
  }
  kvc_status evict() {
    EXPECT_EQ(create(), KVC_OK) << error();
    return kvc_layer_evict(plan, &layer, nullptr);
  }
  static std::string error() {
    char message[512];
    kvc_last_error(message, sizeof message);
    return message;
  }

  alignas(256) char memory[8 * 64 * 4];
  int32_t numbers[100] = {1};
  kvc_plan_options options = limits();
  kvc_layer_args layer = layerOf(memory, numbers);
  kvc_status opened;
  kvc_plan *plan = nullptr;

private:
  std::string text;
  kvc_artifact artifact = {};
  kvc_module *module = nullptr;
};

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_PLANNEDLAYER_H
