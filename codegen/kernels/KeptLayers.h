//===- KeptLayers.h - in how many layers a token was kept -----------------===//
//
// The state of a run over layers: one word for each token. The low half says in how many
// layers some head has kept it, the high half which layer has counted last, so that what
// blocks of the running layer have added so far is told apart.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_KEPTLAYERS_H
#define KVC_CODEGEN_KERNELS_KEPTLAYERS_H

#include "codegen/kernels/PointEval.h"

namespace kvc {

/// In how many layers before the running one a token, by its true position, was kept;
/// i32.
Expr keptLayers(KernelBuilder &k, const SequenceScalars &s, Expr token);

/// Counts the token of a head's row as kept by some head of the running layer. Every
/// head that keeps it writes the same number, whatever the others have done, so no
/// order is needed.
void countKept(KernelBuilder &k, const SequenceScalars &s, Expr head, Expr row);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_KEPTLAYERS_H
