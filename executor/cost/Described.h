//===- Described.h - what a number is about, for reports and files --------===//

#ifndef KVC_EXECUTOR_COST_DESCRIBED_H
#define KVC_EXECUTOR_COST_DESCRIBED_H

#include "executor/cost/RandomCall.h"
#include "executor/cost/RandomLayer.h"

#include <nlohmann/json_fwd.hpp>

namespace kvc::rt {

/// A layer of which `kept` tokens a head stay.
std::string inWords(const kvc_plan &plan, uint32_t kept);
nlohmann::ordered_json inNumbers(const kvc_plan &plan, uint32_t kept);

/// A call over `rows` rows a head on average.
std::string inWords(const CallOptions &options, const RandomCall &call,
                    uint32_t rows);
nlohmann::ordered_json inNumbers(const CallOptions &options,
                                 const RandomCall &call, uint32_t rows);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_DESCRIBED_H
