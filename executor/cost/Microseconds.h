//===- Microseconds.h - measured times as JSON ----------------------------===//

#ifndef KVC_EXECUTOR_COST_MICROSECONDS_H
#define KVC_EXECUTOR_COST_MICROSECONDS_H

#include "executor/cost/CudaTimer.h"

#include <nlohmann/json.hpp>

namespace kvc::rt {

inline nlohmann::ordered_json microseconds(const Times &times) {
  return {{"median", times.median * 1e6}, {"p95", times.p95 * 1e6}};
}

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_MICROSECONDS_H
