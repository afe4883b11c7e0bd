//===- OneLayer.h - a small policy's artefact, limits and arguments -------===//
//
// What tests of the C ABI begin with and then change: all of it is right.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_RUNTIME_ONELAYER_H
#define KVC_TEST_RUNTIME_ONELAYER_H

#include "kvc/kvc.h"

#include <cstring>
#include <span>
#include <string_view>

namespace kvc::test {

/// Both must outlive what is opened with it.
inline kvc_artifact artifactOf(std::string_view manifest,
                               std::span<const kvc_host_entry> kernels) {
  kvc_artifact artifact = {};
  std::memcpy(artifact.magic, KVC_ARTIFACT_MAGIC, sizeof KVC_ARTIFACT_MAGIC);
  artifact.version = KVC_ARTIFACT_VERSION;
  artifact.kernel_count = kernels.size();
  artifact.kernels = kernels.data();
  artifact.manifest = manifest.data();
  artifact.manifest_size = manifest.size();
  return artifact;
}

/// Two KV heads of two query heads, head_dim 64, fp32, a sequence of up to 100
/// tokens.
inline kvc_plan_options limits() {
  kvc_plan_options options = {};
  options.struct_size = sizeof options;
  options.head_dim = 64;
  options.q_heads = 4;
  options.kv_heads = 2;
  options.max_batch = 1;
  options.max_tokens = 100;
  return options;
}

/// A sequence of 100 tokens, for kernels that touch nothing: every tensor lies
/// at `memory`, every list is `number`. There is no workspace.
inline kvc_layer_args layerOf(void *memory, int32_t *number) {
  kvc_layer_args layer = {};
  layer.struct_size = sizeof layer;
  layer.batch = layer.layers = 1;
  layer.tokens = 100;
  layer.lengths = layer.budgets = number;
  layer.k = layer.v = layer.q = {memory, 0, 0, 64};
  layer.q_rows = 4;
  layer.indices = layer.counts = layer.past = layer.status = layer.offsets =
      number;
  layer.index_capacity = layer.out_rows = 100;
  // Not where rows are read.
  layer.k_out = layer.v_out = static_cast<char *>(memory) + 256;
  return layer;
}

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_ONELAYER_H
