//===- WarpVectors.cpp - convert-gpu-to-warps ------------------------------===//

#include "codegen/lower/WarpKernel.h"
#include "codegen/Passes.h"

namespace kvc {
#define GEN_PASS_DEF_GPUTOWARPS
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

struct GPUToWarpsPass : public kvc::impl::GPUToWarpsBase<GPUToWarpsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto target : module.getOps<gpu::GPUModuleOp>())
      for (auto kernel : target.getOps<gpu::GPUFuncOp>())
        convert(kernel, module);
  }

  void convert(gpu::GPUFuncOp kernel, ModuleOp module) {
    ImplicitLocOpBuilder builder(kernel.getLoc(), kernel);
    builder.setInsertionPointToEnd(module.getBody());
    WarpKernel warp(kernel, module, builder);
    if (failed(warp.build((kernel.getName() + ".warp").str()))) {
      warp.func.erase();
      emitRemark(warp.unknown->getLoc())
          << "kernel " << kernel.getName() << " has no form for a warp: '"
          << warp.unknown->getName() << "' " << warp.reason;
      return;
    }
    const WarpKernel::Counts &counts = warp.counts;
    emitRemark(kernel.getLoc())
        << "kernel " << kernel.getName() << " for a warp: " << counts.uniform
        << " values are uniform, " << counts.linear << " linear, "
        << counts.varying << " vectors; " << counts.masked
        << " branches and loops under masks; " << counts.contiguous
        << " accesses together, " << counts.scattered << " lane by lane";
  }
};

} // namespace
