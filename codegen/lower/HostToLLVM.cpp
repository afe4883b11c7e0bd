//===- HostToLLVM.cpp - convert-host-to-llvm ------------------------------===//

#include "codegen/Passes.h"

#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Transforms/DialectConversion.h"

namespace kvc {
#define GEN_PASS_DEF_HOSTTOLLVM
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;

namespace {

struct HostToLLVMPass : public kvc::impl::HostToLLVMBase<HostToLLVMPass> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    LLVMTypeConverter converter(context);
    RewritePatternSet patterns(context);
    LLVMConversionTarget target(*context);
    for (Dialect *dialect : context->getLoadedDialects())
      if (auto *lowering = dyn_cast<ConvertToLLVMPatternInterface>(dialect))
        lowering->populateConvertToLLVMConversionPatterns(target, converter,
                                                          patterns);
    target.addLegalOp<ModuleOp>();
    ConversionConfig config;
    config.foldingMode = DialectConversionFoldingMode::Never;
    config.allowPatternRollback = false;
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns), config)))
      signalPassFailure();
  }
};

} // namespace
