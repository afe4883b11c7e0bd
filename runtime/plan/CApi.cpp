//===- CApi.cpp - the C ABI over modules and plans ------------------------===//

#include "runtime/base/Failure.h"
#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>

using namespace kvc::rt;

static thread_local std::string lastError;

/// Runs `body`; whatever it throws becomes a status and a text.
template <typename Body> static kvc_status guarded(Body body) noexcept {
  try {
    body();
    return KVC_OK;
  } catch (const Failure &failure) {
    lastError = failure.what();
    return failure.status;
  } catch (const std::exception &error) {
    lastError = error.what();
    return KVC_INTERNAL_ERROR;
  }
}

/// Structs may only be as large as this runtime knows, and not cut short.
template <typename T>
static const T &checked(const T *value, const char *name) {
  if (!value)
    throw fail(KVC_BAD_ARGUMENT, "{} must not be null", name);
  if (value->struct_size != sizeof(T))
    throw fail(KVC_ABI_MISMATCH, "{}.struct_size must be {}, got {}", name,
               sizeof(T), value->struct_size);
  return *value;
}

template <typename T> static void notNull(T *pointer, const char *name) {
  if (!pointer)
    throw fail(KVC_BAD_ARGUMENT, "{} must not be null", name);
}

static kvc_status enqueue(const kvc_plan *plan, const kvc_layer_args *args,
                          Phase first, Phase last, void *stream) {
  return guarded([&] {
    notNull(plan, "plan");
    plan->enqueue(checked(args, "args"), first, last, stream);
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
    *module = new kvc_module(*artifact, checked(target, "target"));
  });
}

kvc_status kvc_module_load(const char *path, const kvc_target *target,
                           kvc_module **module) {
  return guarded([&] {
    notNull(path, "path");
    notNull(module, "module");
    *module = new kvc_module(std::string(path), checked(target, "target"));
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
    *plan = new kvc_plan(*module, checked(options, "options"));
  });
}

void kvc_plan_destroy(kvc_plan *plan) { delete plan; }

kvc_status kvc_plan_query(const kvc_plan *plan, kvc_plan_info *info) {
  return guarded([&] {
    notNull(plan, "plan");
    checked<kvc_plan_info>(info, "info");
    *info = plan->query();
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
