//===- LaunchNumbers.h - a launch's profile as JSON -----------------------===//

#ifndef KVC_EXECUTOR_EVICTION_LAUNCHNUMBERS_H
#define KVC_EXECUTOR_EVICTION_LAUNCHNUMBERS_H

#include "ptx/profile/Profiler.h"

#include <nlohmann/json_fwd.hpp>

namespace kvc::rt {

/// Counts, and the estimate on a card in microseconds.
nlohmann::ordered_json describeLaunch(const ptx::LaunchProfile &launch,
                                      const ptx::Card &card);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_LAUNCHNUMBERS_H
