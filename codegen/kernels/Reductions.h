//===- Reductions.h - what each kind of reduction computes ----------------===//
//
// The one place of code generation that knows the kinds. Kinds that fold are made
// value by value, in whatever walk a kernel makes; the others need several walks
// over the same values.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_REDUCTIONS_H
#define KVC_CODEGEN_KERNELS_REDUCTIONS_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// Of kinds that fold: the value of nothing, one value more, and the result of
/// `count` values, f32.
Expr reductionStart(KernelBuilder &k, ReduceKind kind);
Expr reductionStep(ReduceKind kind, Expr sum, Expr value);
Expr reductionEnd(ReduceKind kind, Expr sum, Expr count);
/// Over lanes, in a tree: over each `lanes` beside each other, those that are far apart
/// first; over lanes that are `first` and more apart, up to `lanes`, near ones first.
Expr reduceLanes(KernelBuilder &k, ReduceKind kind, Expr value,
                 int64_t lanes = warpSize);
Expr reduceLanesFrom(KernelBuilder &k, ReduceKind kind, Expr value,
                     int64_t first, int64_t lanes);
/// The sum, before its end, of `count` times the same value.
Expr reductionOfEqual(KernelBuilder &k, ReduceKind kind, Expr value,
                      Expr count);

/// Whether zeros beside values of 0 or more change nothing: what is 0 need not be
/// walked.
bool ignoresZeros(ReduceKind kind);

/// Walks over all values and folds value(x) of each x; the fold's start where
/// there is none. All threads that share the walk must make it; it may stand in
/// a loop whose bounds they share.
using WalkValues = llvm::function_ref<Expr(
    ReduceKind fold, llvm::function_ref<Expr(Expr x)> value)>;
/// What reductions of kind Std are the root of, f32.
Expr varianceOfAll(KernelBuilder &k, Expr count, WalkValues walk);
/// A reduction of any kind over `count` values, f32.
Expr reduceAll(KernelBuilder &k, ReduceKind kind, Expr count, WalkValues walk);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_REDUCTIONS_H
