//===- KernelsToNVVM.cpp - convert-kernels-to-nvvm ------------------------===//

#include "codegen/Passes.h"

#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Transforms/DialectConversion.h"

namespace kvc {
#define GEN_PASS_DEF_KERNELSTONVVM
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;

namespace {

struct KernelsToNVVMPass
    : public kvc::impl::KernelsToNVVMBase<KernelsToNVVMPass> {
  void runOnOperation() override {
    gpu::GPUModuleOp module = getOperation();
    MLIRContext *context = &getContext();
    LowerToLLVMOptions options(
        context, DataLayout(cast<DataLayoutOpInterface>(*module)));
    // One parameter per buffer instead of a descriptor.
    options.useBarePtrCallConv = true;
    LLVMTypeConverter converter(context, options);
    configureGpuToNVVMTypeConverter(converter);
    RewritePatternSet patterns(context);
    LLVMConversionTarget target(*context);
    // Before a dialect's own lowering, which knows no GPU.
    populateGpuToNVVMConversionPatterns(converter, patterns, /*benefit=*/10);
    for (Dialect *dialect : context->getLoadedDialects())
      // Of math ops kvc-expand-math and convert-simt-to-nvvm leave none.
      if (auto *lowering = dyn_cast<ConvertToLLVMPatternInterface>(dialect);
          lowering && !isa<math::MathDialect>(dialect))
        lowering->populateConvertToLLVMConversionPatterns(target, converter,
                                                          patterns);
    configureGpuToNVVMConversionLegality(target);
    // LLVM folds what it gets, and a policy's kernel that cannot be lowered is given up.
    ConversionConfig config;
    config.foldingMode = DialectConversionFoldingMode::Never;
    config.allowPatternRollback = false;
    if (failed(applyPartialConversion(module, target, std::move(patterns),
                                      config)))
      signalPassFailure();
  }
};

} // namespace
