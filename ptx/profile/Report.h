//===- Report.h - profiles as text ----------------------------------------===//

#ifndef KVC_PTX_PROFILE_REPORT_H
#define KVC_PTX_PROFILE_REPORT_H

#include "ptx/profile/Profiler.h"

namespace kvc::ptx {

/// A paragraph per launch, and a line with the sum; docs/cost-model.md says what
/// each number is.
std::string report(const std::vector<LaunchProfile> &launches,
                   const Card &card);

} // namespace kvc::ptx

#endif // KVC_PTX_PROFILE_REPORT_H
