//===- Gram.h - a quadratic form that bounds norms behind a projection ----===//

#ifndef KVC_CODEGEN_KERNELS_GRAM_H
#define KVC_CODEGEN_KERNELS_GRAM_H

#include "codegen/kernels/Kernels.h"

namespace kvc {

/// What a gram kernel leaves for each query head, or, in the place of the first heads,
/// for each KV head's group: the matrix [d][d] in the model's type, times a scale; for
/// each of its blocks [trace, sum of squares] of the block's elements, and behind the
/// blocks [outputs / scale, error of the sums], f32. Sequences that share the projection
/// (wo_batch is 0) share this, too.
struct GramBuffers {
  GramBuffers(KernelBuilder &k, llvm::StringRef matrix, llvm::StringRef sums);

  static int64_t blocks(const Shape &shape);
  /// True where nothing but means over the group is made of the bounds: then a form
  /// for all outputs of a group is enough.
  static bool ofGroups(PolicyOp policy);
  /// True where no block in front makes the same.
  static Expr isOwn(KernelBuilder &k, Expr sequence);
  Buffer matrix, sums; // [batch][Hq][d][d], [batch][Hq][block][2]
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_GRAM_H
