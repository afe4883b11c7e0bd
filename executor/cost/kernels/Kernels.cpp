//===- Kernels.cpp - the kernels of measure-card, by name -----------------===//

#include "executor/cost/kernels/Card.h"
#include "runtime/kernels/Entries.h"

#ifndef __NVPTX__
#include "executor/cost/kernels/HostKernels.h"
#endif

namespace kvc::gpu {

#define KVC_KERNELS(X)                                                         \
  X(empty, (empty), CardArgs, (NoShared))                                      \
  X(copy_memory, (copyMemory), CardArgs, (NoShared))                           \
  X(read_memory, (readMemory), CardArgs, (NoShared))                           \
  X(chase, (chase), CardArgs, (NoShared))                                      \
  X(multiply, (multiply<independent>), CardArgs, (NoShared))                   \
  X(multiply_chain, (multiply<1>), CardArgs, (NoShared))                       \
  X(load_rows, (loadPieces<true>), CardArgs, (NoShared))                       \
  X(load_contiguous, (loadPieces<false>), CardArgs, (NoShared))                \
  X(load_matrices, (loadMatrices), CardArgs, (MatrixShared))                   \
  X(exponentials, (exponentials), CardArgs, (NoShared))                        \
  X(conversions, (conversions), CardArgs, (NoShared))

KVC_ENTRIES(cardKernels, KVC_KERNELS)

} // namespace kvc::gpu
