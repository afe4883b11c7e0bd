//===- Allocation.h - shares of a budget, exact ---------------------------===//

#ifndef KVC_CODEGEN_KERNELS_ALLOCATION_H
#define KVC_CODEGEN_KERNELS_ALLOCATION_H

#include "codegen/kernels/SequenceScalars.h"

namespace kvc {

/// kvc.allocate_layers for the running layer; i32. All lanes of the warp call
/// it and get the same number.
Expr allocateLayers(KernelBuilder &k, const SequenceScalars &s,
                    AllocateLayersOp op);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_ALLOCATION_H
