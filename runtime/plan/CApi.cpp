//===- CApi.cpp - the C ABI over modules and plans ------------------------===//

#include "runtime/base/Failure.h"
#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>

using namespace kvc::rt;

static thread_local std::string lastError;
/// A size beyond this is no size.
static constexpr size_t mostStructBytes = 1 << 16;

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

/// Structs grow at their ends. Fields that the caller does not have are 0 here; what
/// this runtime does not have must be 0 there.
template <typename T> static void checkSize(const T *value, const char *name) {
  if (!value)
    throw fail(KVC_BAD_ARGUMENT, "{} must not be null", name);
  size_t size = value->struct_size;
  if (size < sizeof size)
    throw fail(KVC_ABI_MISMATCH, "{}.struct_size must be at least {}, got {}",
               name, sizeof size, size);
  if (size > mostStructBytes)
    throw fail(KVC_ABI_MISMATCH, "{}.struct_size must be at most {}, got {}",
               name, mostStructBytes, size);
}

template <typename T> static T received(const T *value, const char *name) {
  checkSize(value, name);
  auto *bytes = reinterpret_cast<const unsigned char *>(value);
  for (size_t i = sizeof(T); i < value->struct_size; ++i)
    if (bytes[i])
      throw fail(KVC_ABI_MISMATCH,
                 "{} has {} bytes here and must be 0 behind them, got {} at "
                 "byte {}: a field of a newer kvc.h",
                 name, sizeof(T), bytes[i], i);
  T known = {};
  std::memcpy(&known, value, std::min(sizeof(T), value->struct_size));
  return known;
}

/// As much of `known` as the caller has room for; struct_size stays.
template <typename T> static void hand(T *to, T known, const char *name) {
  checkSize(to, name);
  known.struct_size = to->struct_size;
  auto *bytes = reinterpret_cast<unsigned char *>(to);
  size_t common = std::min(sizeof(T), to->struct_size);
  std::memcpy(bytes, &known, common);
  std::fill(bytes + common, bytes + known.struct_size, 0);
}

template <typename T> static void notNull(T *pointer, const char *name) {
  if (!pointer)
    throw fail(KVC_BAD_ARGUMENT, "{} must not be null", name);
}

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
