//===- HeadTable.h - the importance of heads, a file of the user's --------===//

#ifndef KVC_RUNTIME_EXECUTOR_HEADTABLE_H
#define KVC_RUNTIME_EXECUTOR_HEADTABLE_H

#include "runtime/executor/Evictor.h"

namespace kvc::rt {

/// Gives `path` (safetensors, `importance` F32 [layers, Hq]) to a policy that
/// reads it. Throws Failure where the policy needs one and `path` is empty,
/// takes none and it is not, or the file does not fit.
void giveTable(Evictor &evictor, const std::string &path, uint32_t layers,
               uint32_t qHeads);

} // namespace kvc::rt

#endif // KVC_RUNTIME_EXECUTOR_HEADTABLE_H
