//===- HeadTable.h - the importance of heads, a file of the user's --------===//

#ifndef KVC_EXECUTOR_EVICTION_HEADTABLE_H
#define KVC_EXECUTOR_EVICTION_HEADTABLE_H

#include "runtime/plan/Manifest.h"

#include <string>
#include <vector>

namespace kvc::rt {

/// The table of `path` (safetensors, `importance` F32 [layers, Hq]) for a
/// policy that reads one; empty for others. Throws Failure where the policy
/// needs one and `path` is empty, takes none and it is not, or the file does
/// not fit.
std::vector<float> readTable(const Manifest &manifest, const std::string &path,
                             uint32_t layers, uint32_t qHeads);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_HEADTABLE_H
