//===- PolicyPipeline.h - the order of the policy passes ------------------===//

#ifndef KVC_PASSES_POLICYPIPELINE_H
#define KVC_PASSES_POLICYPIPELINE_H

#include "mlir/Pass/PassManager.h"

#include <string>
#include <vector>

namespace kvc {

/// Level policy, parameters bound and checked. `params` are NAME=VALUE.
void buildPolicyPipeline(mlir::OpPassManager &manager,
                         const std::vector<std::string> &params,
                         bool pruneNorms = false);

/// From there to level fused.
void buildFusePipeline(mlir::OpPassManager &manager);

/// Registers `--kvc-fuse-pipeline`, both of the above.
void registerPolicyPipelines();

} // namespace kvc

#endif // KVC_PASSES_POLICYPIPELINE_H
