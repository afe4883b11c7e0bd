//===- WarpgroupsToNVVM.h - products of four warps together ---------------===//

#ifndef KVC_CODEGEN_LOWER_WARPGROUPSTONVVM_H
#define KVC_CODEGEN_LOWER_WARPGROUPSTONVVM_H

#include "mlir/IR/PatternMatch.h"

namespace kvc {

/// simt.publish, simt.group_multiply and simt.group_wait to PTX of sm_90a.
void addWarpgroupPatterns(mlir::RewritePatternSet &patterns);

} // namespace kvc

#endif // KVC_CODEGEN_LOWER_WARPGROUPSTONVVM_H
