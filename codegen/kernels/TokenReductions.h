//===- TokenReductions.h - what is reduced over the tokens of a row -------===//
//
// The whole block calls each of these; all have barriers inside.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_TOKENREDUCTIONS_H
#define KVC_CODEGEN_KERNELS_TOKENREDUCTIONS_H

#include "codegen/kernels/RowBlock.h"

namespace kvc {

/// kvc.reduce over the tokens of one head, f32.
Expr tokenStatistic(RowBlock &row, ReduceOp reduce, int member);
/// kvc.reduce over tokens of vectors: writes a value per channel.
/// `channelRuns` is shared, one f32 per thread.
void channelStatistic(RowBlock &row, ReduceOp reduce,
                      const Buffer &channelRuns);
/// kvc.combine_parts of vectors, which the kernel has as `input`: a value per channel.
void combineParts(RowBlock &row, CombinePartsOp op, const std::string &input,
                  const Buffer &channelRuns);
/// kvc.select_heads for the block's own head, i1: of values in memory, or of those that
/// warps make of heads.
Expr isSelectedHead(RowBlock &row, SelectHeadsOp op);
Expr isSelectedHead(RowBlock &row, SelectHeadsOp op,
                    llvm::function_ref<Expr(Expr kvHead)> byWarp);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_TOKENREDUCTIONS_H
