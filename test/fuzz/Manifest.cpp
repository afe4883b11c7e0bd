//===- Manifest.cpp - the manifest, and plans made of it -----------------===//

#include "test/fuzz/Target.h"

#include "kvc/host.h"
#include "kvc/kvc.h"
#include "runtime/plan/Manifest.h"
#include "test/runtime/OneLayer.h"

#include <vector>

using namespace kvc;

static void nothing(kvc_simt_thread *, const uint64_t *) {}

static void expectOneLine() {
  std::string text(kvc_last_error(nullptr, 0) + 1, 0);
  kvc_last_error(text.data(), text.size());
  for (char c : text.substr(0, text.size() - 1))
    if (uint8_t(c) < 0x20)
      fuzz::fault("an error must be one line, got '" + text + "'");
}

/// As an engine does: open, plan for each variant, ask for its needs.
KVC_FUZZ_TARGET(manifest) {
  std::string text(bytes);
  rt::Manifest parsed = rt::Manifest::parse(text);
  std::vector<kvc_host_entry> kernels;
  for (const rt::Variant &variant : parsed.variants)
    for (const rt::KernelSpec &kernel : variant.kernels)
      kernels.push_back(
          {kernel.name.c_str(), nothing, 0, nullptr, KVC_ANY_PROCESSOR});
  kvc_artifact artifact = test::artifactOf(text, kernels);
  kvc_enable_host();
  kvc_target target = {};
  target.struct_size = sizeof target;
  kvc_module *module = nullptr;
  if (kvc_module_open(&artifact, &target, &module) != KVC_OK)
    return expectOneLine();
  for (const rt::Variant &variant : parsed.variants) {
    kvc_plan_options options = {};
    options.struct_size = sizeof options;
    options.dtype = variant.dtype;
    options.head_dim = variant.headDim;
    options.kv_heads = 2;
    options.q_heads = 2 * variant.group;
    options.max_batch = 3;
    options.max_tokens = 1000;
    kvc_plan *plan = nullptr;
    if (kvc_plan_create(module, &options, &plan) != KVC_OK) {
      expectOneLine();
      continue;
    }
    kvc_plan_info info = {};
    info.struct_size = sizeof info;
    if (kvc_plan_query(plan, &info) != KVC_OK)
      fuzz::fault("a plan must tell its needs");
    kvc_layer_args none = {};
    none.struct_size = sizeof none;
    if (kvc_layer_evict(plan, &none, nullptr) == KVC_OK)
      fuzz::fault("a layer without arguments must be refused");
    expectOneLine();
    kvc_plan_destroy(plan);
  }
  kvc_module_close(module);
}
