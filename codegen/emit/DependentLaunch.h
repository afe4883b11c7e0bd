//===- DependentLaunch.h - kernels that may begin early -------------------===//
//
// From sm_90 on a kernel may be launched while the one in front of it in the stream
// still runs (programmatic dependent launch): its blocks take the places that become
// free, and only then wait. So what lies between two kernels, the end of the last block
// and the start of a grid, costs less (docs/decisions.md). Whether a launch is one of
// these the runtime says (Launch::front); where it is not, nothing waits.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_EMIT_DEPENDENTLAUNCH_H
#define KVC_CODEGEN_EMIT_DEPENDENTLAUNCH_H

#include "codegen/edsl/StartsLate.h"

#include "llvm/IR/Module.h"

namespace kvc {

/// Has each kernel that is not `startsLate` wait for all earlier ones in front of its
/// first access to global memory, and let the next one begin behind that: so that at most
/// one kernel waits, and a kernel that has ended says that all in front of it have. Each
/// thread waits, whichever way it takes. To be called behind the passes of `optimize`: the
/// prologue of a kernel is then what they have made of it.
void waitForEarlierLaunches(llvm::Module &module);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_DEPENDENTLAUNCH_H
