//===- ProjectedNorm.h - norms of values behind the output projection -----===//

#ifndef KVC_CODEGEN_KERNELS_PROJECTEDNORM_H
#define KVC_CODEGEN_KERNELS_PROJECTEDNORM_H

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/StagedRows.h"
#include "codegen/kernels/WarpProduct.h"

namespace kvc {

/// ||v W_head|| of the 32 values that are the product's columns, one per lane.
/// Products leave the registers as sums only. `columnSums` is shared,
/// [warps][columns]. The block's warps read the projection together where it is
/// `staged`, each for itself where that is null.
Expr projectedNorm(KernelBuilder &k, ProjectedNormOp op,
                   const SequenceScalars &s, WarpProduct &product, Expr head,
                   const Buffer &columnSums, StagedRows *staged);

/// A bound of the same, from what a gram kernel left: sum c * sqrt(v G v +
/// e ||v||^2), see Gram.cpp; e covers the error of G's type and of all sums, so
/// that the result is never below the norm that is computed. `point` is the
/// lane's own value, `squares` its ||v||^2, `tokenOf` gives a column's token.
Expr projectedNormBound(KernelBuilder &k, ProjectedNormOp op,
                        const KernelSite &site, const SequenceScalars &s,
                        WarpProduct &product, const Point &point, Expr head,
                        llvm::function_ref<Expr(Expr)> tokenOf,
                        const Buffer &columnSums, Expr squares);
/// ||v||^2 of the lane's own value.
Expr squaredNorm(KernelBuilder &k, const SequenceScalars &s,
                 WarpProduct &product, const Point &point,
                 llvm::function_ref<Expr(Expr)> tokenOf,
                 const Buffer &columnSums);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_PROJECTEDNORM_H
