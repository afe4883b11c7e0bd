//===- Arguments.h - what kernels are launched with -----------------------===//

#ifndef KVC_RUNTIME_PLAN_ARGUMENTS_H
#define KVC_RUNTIME_PLAN_ARGUMENTS_H

#include "kvc/cache.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvc::rt {

/// The rows of kvc/arguments.def, in their order.
enum class Argument : uint32_t {
#define KVC_ARGUMENT(name, kind, access, value, meaning) name,
#include "kvc/arguments.def"
#undef KVC_ARGUMENT
  count
};

using ArgumentValues = std::array<uint64_t, size_t(Argument::count)>;

/// Nothing where no row has that name.
std::optional<Argument> findArgument(std::string_view name);

/// The log-sum-exp that kernels read: f32, strides in elements.
struct LseView {
  const float *data;
  uint32_t rows; // of a head
  int64_t batch, head;
  float scale; // to base 2
};

/// The slot of every argument in one call; `onHost`: of a device that shares the host's
/// memory, where tables have been looked at; `moves`: the kernel that lists kept rows moves
/// them.
ArgumentValues argumentValues(const kvc_layer_args &layer,
                              const kvc_plan_options &limits,
                              const LseView &lse, const kvc_cache_view &cache,
                              const kvc_cache_view &into, bool onHost,
                              bool moves);

/// Throws where a number is not within what kernels take it for.
void checkArgument(Argument argument, uint64_t value);

} // namespace kvc::rt

#endif // KVC_RUNTIME_PLAN_ARGUMENTS_H
