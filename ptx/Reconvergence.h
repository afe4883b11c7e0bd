//===- Reconvergence.h - where the ways of a warp meet --------------------===//

#ifndef KVC_PTX_RECONVERGENCE_H
#define KVC_PTX_RECONVERGENCE_H

#include "ptx/Program.h"

namespace kvc::ptx {

/// Sets `join` of every guarded branch: the first instruction that all ways from
/// it to the kernel's end pass (its immediate post-dominator), code.size() where
/// they meet at the end only.
void findJoins(Kernel &kernel);

} // namespace kvc::ptx

#endif // KVC_PTX_RECONVERGENCE_H
