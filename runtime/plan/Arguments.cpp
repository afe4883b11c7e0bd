//===- Arguments.cpp - what kernels are launched with ---------------------===//

#include "runtime/plan/Arguments.h"

#include "runtime/base/Boundary.h"
#include "runtime/cache/CacheView.h"

#include <bit>
#include <cmath>
#include <concepts>
#include <iterator>

using namespace kvc::rt;

static constexpr const char *names[] = {
#define KVC_ARGUMENT(name, kind, access, value, meaning) #name,
#include "kvc/arguments.def"
#undef KVC_ARGUMENT
};

/// What callers know of it: a field of their own, or an expression of these.
static constexpr std::string_view fields[] = {
#define KVC_ARGUMENT(name, kind, access, value, meaning) #value,
#include "kvc/arguments.def"
#undef KVC_ARGUMENT
};

/// How many bits a number may have, without its sign; 64: any.
static constexpr int bitsOf(std::string_view kind) {
  return kind == "Count" ? 29 : kind == "Stride" ? 31 : 64;
}

static constexpr int bits[] = {
#define KVC_ARGUMENT(name, kind, access, value, meaning) bitsOf(#kind),
#include "kvc/arguments.def"
#undef KVC_ARGUMENT
};
static_assert(KVC_MAX_COUNT == (1 << bitsOf("Count")) - 1);

std::optional<Argument> kvc::rt::findArgument(std::string_view name) {
  for (uint32_t i = 0; i < std::size(names); ++i)
    if (name == names[i])
      return Argument(i);
  return std::nullopt;
}

/// What the rows of a merged cache represent; nothing of others.
static kvc_member_table membersOf(const kvc_cache_view &cache) {
  return cache.members ? *cache.members : kvc_member_table{};
}

/// Tables with pages that rows move in; of K and V in one pool, in two.
static int poolsMovedIn(const kvc_layer_args &layer,
                        const kvc_cache_view &into) {
  if (into.kind != KVC_PAGED || !into.k.data || into.k.data != layer.k.data)
    return 0;
  return !into.v_table.data ? 1 : into.v.data == into.k.data ? 2 : 3;
}

// A slot is a pointer, an int64 or, in its low half, a float.
static uint64_t slot(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}
static uint64_t slot(float value) { return std::bit_cast<uint32_t>(value); }
static uint64_t slot(std::integral auto value) { return uint64_t(value); }

ArgumentValues kvc::rt::argumentValues(const kvc_layer_args &layer,
                                       const kvc_plan_options &limits,
                                       const LseView &lse,
                                       const kvc_cache_view &cache,
                                       const kvc_cache_view &into, bool onHost,
                                       bool moves) {
  constexpr double log2e = 1.44269504088896340736;
  double scale = layer.scale != 0.0f ? double(layer.scale)
                                     : 1.0 / std::sqrt(double(limits.head_dim));
  float logitScale = float(scale * log2e);
  return {
#define KVC_ARGUMENT(name, kind, access, value, meaning) slot(value),
#include "kvc/arguments.def"
#undef KVC_ARGUMENT
  };
}

void kvc::rt::checkArgument(Argument argument, uint64_t value) {
  const char *name = names[size_t(argument)];
  int most = bits[size_t(argument)];
  auto number = int64_t(value);
  if (most == bitsOf("Count") && value > KVC_MAX_COUNT)
    throw fail(KVC_EXCEEDS_LIMITS, "{} must be at most {}, got {}", name,
               KVC_MAX_COUNT, value);
  if (most == bitsOf("Stride") && number != int32_t(number)) {
    std::string_view field = fields[size_t(argument)];
    constexpr std::string_view ofLayer = "layer.";
    if (field.starts_with(ofLayer))
      field.remove_prefix(ofLayer.size());
    throw fail(KVC_EXCEEDS_LIMITS, "{} must be {} to {} elements, got {}",
               field, INT32_MIN, INT32_MAX, number);
  }
}
