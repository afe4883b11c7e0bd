//===- PolicyPipeline.cpp - the order of the policy passes, and why -------===//

#include "passes/PolicyPipeline.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void kvc::buildPolicyPipeline(OpPassManager &manager,
                              const std::vector<std::string> &params,
                              bool pruneNorms) {
  OpPassManager &policy = manager.nest<PolicyOp>();
  BindParamsOptions options;
  options.values.assign(params.begin(), params.end());
  policy.addPass(createBindParams(options));
  // Sizes computed from parameters become constants, which the checks want.
  policy.addPass(createFoldScalars());
  policy.addPass(createCSEPass());
  policy.addPass(createCheckPolicy());
  if (pruneNorms)
    policy.addPass(createPruneNorms());
}

void kvc::buildFusePipeline(OpPassManager &manager) {
  OpPassManager &policy = manager.nest<PolicyOp>();
  policy.addPass(createInferAxes());
  // Inserted broadcasts of one value are one.
  policy.addPass(createCSEPass());
  policy.addPass(createFormKernels());
  policy.addPass(createCheckKernels());
  policy.addPass(createPlanScratch());
  // Last: it says what the others have made.
  policy.addPass(createWritePlan());
}

void kvc::registerPolicyPipelines() {
  PassPipelineRegistration<>("kvc-fuse-pipeline",
                             "from level policy to level fused",
                             [](OpPassManager &manager) {
                               buildPolicyPipeline(manager, {});
                               buildFusePipeline(manager);
                             });
}
