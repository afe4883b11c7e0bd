//===- KernelsToNVVM.cpp - convert-kernels-to-nvvm ------------------------===//

#include "codegen/Passes.h"

#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Transforms/DialectConversion.h"

namespace kvc {
#define GEN_PASS_DEF_KERNELSTONVVM
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;

namespace {

/// To L2: a warp's registers are where it goes from there.
struct LowerPrefetch : public ConvertOpToLLVMPattern<memref::PrefetchOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(memref::PrefetchOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Value address = getStridedElementPtr(
        rewriter, op.getLoc(), op.getMemRefType(), adaptor.getMemref(),
        adaptor.getIndices());
    // LLVM has the instruction for later PTX alone; it is as old as PTX 2.0.
    rewriter.create<LLVM::InlineAsmOp>(
        op.getLoc(), TypeRange(), ValueRange(address),
        "prefetch.global.L2 [$0];", "l", /*has_side_effects=*/true,
        /*is_align_stack=*/false, LLVM::TailCallKind::None,
        /*asm_dialect=*/nullptr, /*operand_attrs=*/nullptr);
    rewriter.eraseOp(op);
    return success();
  }
};

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
    patterns.add<LowerPrefetch>(converter, /*benefit=*/10);
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
