//===- Gram.h - a quadratic form that bounds norms behind a projection ----===//

#ifndef KVC_CODEGEN_KERNELS_GRAM_H
#define KVC_CODEGEN_KERNELS_GRAM_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// What a gram kernel leaves for each query head: the matrix [d][d] in the
/// model's type, divided by s = the sum of the column norms; and for each of
/// its blocks [s, sum of squares of the block's elements], f32.
struct GramBuffers {
  GramBuffers(KernelBuilder &k, llvm::StringRef matrix, llvm::StringRef sums);

  static int64_t blocks(const Shape &shape);
  Buffer matrix, sums; // [batch][Hq][d][d], [batch][Hq][block][2]
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_GRAM_H
