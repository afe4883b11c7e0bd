//===- Pipelines.cpp - the order of the lowering passes, and why ----------===//

#include "codegen/Pipelines.h"

#include "codegen/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void kvc::buildGPUPipeline(OpPassManager &manager, ArrayRef<Shape> shapes,
                           std::optional<int64_t> listsAbove) {
  ConvertKVCToGPUOptions options;
  if (listsAbove)
    options.listsAbove = *listsAbove;
  for (const Shape &shape : shapes)
    options.shapes += shape.text() + ";";
  manager.addPass(createConvertKVCToGPU(options));
  OpPassManager &target = manager.nest<gpu::GPUModuleOp>();
  // Points are evaluated where they are needed, each with its own addresses;
  // what is the same becomes one here.
  target.addPass(createCSEPass());
  // A region of ours is a block: there is nothing in it to simplify but what patterns do.
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  target.addPass(createCanonicalizerPass(config));
  target.addPass(createCSEPass());
  target.addPass(createContractProducts());
}

void kvc::buildNVVMPipeline(OpPassManager &manager, bool warpgroups,
                            bool onlyOther) {
  OpPassManager &target = manager.nest<gpu::GPUModuleOp>();
  target.addPass(createChooseForms({warpgroups, onlyOther}));
  target.addPass(createRollStreams({/*writtenOut=*/true}));
  target.addPass(createExpandMath());
  target.addPass(createSelectMemory());
  target.addPass(createEarlyLoads());
  target.addPass(createNarrowIndices());
  // Before convert-kernels-to-nvvm, which would send math ops to libdevice.
  target.addPass(createSIMTToNVVM());
  manager.addPass(createSCFToControlFlowPass());
  OpPassManager &lower = manager.nest<gpu::GPUModuleOp>();
  lower.addPass(createKernelsToNVVM());
  lower.addPass(createLaunchMemory());
  lower.addPass(createConvertNVVMToLLVMPass());
  lower.addPass(createReconcileUnrealizedCastsPass());
}

void kvc::buildHostPipeline(OpPassManager &manager, bool warps) {
  OpPassManager &target = manager.nest<gpu::GPUModuleOp>();
  target.addPass(createChooseForms());
  target.addPass(createRollStreams());
  target.addPass(createHostAlignment());
  target.addPass(createExpandMath());
  if (warps)
    manager.addPass(createGPUToWarps());
  manager.addPass(createGPUToHost());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createHostToLLVM());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

void kvc::registerCodegenPipelines() {
  PassPipelineRegistration<>(
      "kvc-nvvm-pipeline", "from level gpu to NVVM in the gpu.module",
      [](OpPassManager &manager) { buildNVVMPipeline(manager); });
  PassPipelineRegistration<>("kvc-host-pipeline",
                             "from level gpu to the LLVM dialect",
                             [](OpPassManager &manager) {
                               buildHostPipeline(manager, /*warps=*/true);
                             });
}
