//===- CApi.cpp - the C ABI over modules and plans ------------------------===//

#include "runtime/base/Boundary.h"
#include "runtime/plan/Plan.h"

using namespace kvc::rt;

static kvc_status enqueue(const kvc_plan *plan, const kvc_layer_args *args,
                          Phase first, Phase last, void *stream) {
  return guarded([&] {
    notNull(plan, "plan");
    plan->enqueue(received(args, "args"), first, last, stream);
  });
}

extern "C" {

uint32_t kvc_abi_version(void) { return KVC_ABI_VERSION; }

size_t kvc_last_error(char *text, size_t capacity) {
  if (text && capacity) {
    size_t length = std::min(capacity - 1, lastError.size());
    std::memcpy(text, lastError.data(), length);
    text[length] = 0;
  }
  return lastError.size();
}

int kvc_cuda_device_count(void) { return cudaDeviceCount(); }

kvc_status kvc_module_open(const kvc_artifact *artifact,
                           const kvc_target *target, kvc_module **module) {
  return guarded([&] {
    notNull(artifact, "artifact");
    notNull(module, "module");
    *module = new kvc_module(*artifact, received(target, "target"));
  });
}

kvc_status kvc_module_load(const char *path, const kvc_target *target,
                           kvc_module **module) {
  return guarded([&] {
    notNull(path, "path");
    notNull(module, "module");
    *module = new kvc_module(std::string(path), received(target, "target"));
  });
}

void kvc_module_close(kvc_module *module) { delete module; }

const char *kvc_module_manifest(const kvc_module *module) {
  return module ? module->manifestText.c_str() : "";
}

kvc_status kvc_plan_create(kvc_module *module, const kvc_plan_options *options,
                           kvc_plan **plan) {
  return guarded([&] {
    notNull(module, "module");
    notNull(plan, "plan");
    *plan = new kvc_plan(*module, received(options, "options"));
  });
}

void kvc_plan_destroy(kvc_plan *plan) { delete plan; }

kvc_status kvc_plan_query(const kvc_plan *plan, kvc_plan_info *info) {
  return guarded([&] {
    notNull(plan, "plan");
    hand(info, plan->query(), "info");
  });
}

kvc_status kvc_layer_prepare(const kvc_plan *plan, const kvc_layer_args *args,
                             void *stream) {
  return guarded([&] {
    notNull(plan, "plan");
    plan->prepare(received(args, "args"), stream);
  });
}

kvc_status kvc_layer_score(const kvc_plan *plan, const kvc_layer_args *args,
                           void *stream) {
  return enqueue(plan, args, Phase::Score, Phase::Score, stream);
}

kvc_status kvc_layer_select(const kvc_plan *plan, const kvc_layer_args *args,
                            void *stream) {
  return enqueue(plan, args, Phase::Select, Phase::Select, stream);
}

kvc_status kvc_compact(const kvc_plan *plan, const kvc_layer_args *args,
                       void *stream) {
  return enqueue(plan, args, Phase::Compact, Phase::Compact, stream);
}

kvc_status kvc_layer_evict(const kvc_plan *plan, const kvc_layer_args *args,
                           void *stream) {
  return enqueue(plan, args, Phase::Score, Phase::Compact, stream);
}

} // extern "C"
