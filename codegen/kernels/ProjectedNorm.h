//===- ProjectedNorm.h - norms of values behind the output projection -----===//

#ifndef KVC_CODEGEN_KERNELS_PROJECTEDNORM_H
#define KVC_CODEGEN_KERNELS_PROJECTEDNORM_H

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/StagedRows.h"
#include "codegen/kernels/WarpProduct.h"

namespace kvc {

/// ||v W_head|| of the values that are the product's columns: for each tile of 32 one
/// per lane. Products leave the registers as sums only. `columnSums` is shared,
/// [warps][columns]. The block's warps read the projection together where it is
/// `staged`, each for itself where that is null.
KernelBuilder::Values projectedNorm(KernelBuilder &k, ProjectedNormOp op,
                                    const SequenceScalars &s,
                                    WarpProduct &product, Expr head,
                                    const Buffer &columnSums,
                                    StagedRows *staged);

/// A bound of the same, from what a gram kernel left: sqrt(D (v G v + e ||v||^2)),
/// see Gram.cpp; e covers the error of G's type and of all sums, so that the result
/// is never below the norm that is computed. Where the form is that of groups, `head` is
/// a KV head, and it is the mean over its group. `point` is the lane's own value,
/// `tokenOf` gives a column's token.
Expr projectedNormBound(KernelBuilder &k, ProjectedNormOp op,
                        const KernelSite &site, const SequenceScalars &s,
                        WarpProduct &product, const Point &point, Expr head,
                        llvm::function_ref<Expr(Expr)> tokenOf,
                        const Buffer &columnSums, StagedRows *staged);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_PROJECTEDNORM_H
