//===- ChooseForms.cpp - kvc-choose-forms ---------------------------------===//

#include "codegen/Passes.h"
#include "codegen/WarpgroupForms.h"

namespace kvc {
#define GEN_PASS_DEF_CHOOSEFORMS
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

struct ChooseFormsPass : public kvc::impl::ChooseFormsBase<ChooseFormsPass> {
  using ChooseFormsBase::ChooseFormsBase;

  void runOnOperation() override {
    gpu::GPUModuleOp module = getOperation();
    SmallVector<gpu::GPUFuncOp> forms, plain;
    for (auto func : module.getOps<gpu::GPUFuncOp>())
      (func->hasAttr(warpgroupsOfAttr) ? forms : plain).push_back(func);
    if (!warpgroups) {
      for (gpu::GPUFuncOp form : forms)
        form.erase();
      return;
    }
    if (onlyOther)
      for (gpu::GPUFuncOp func : plain)
        func.erase();
    for (gpu::GPUFuncOp form : forms) {
      auto name = cast<StringAttr>(form->removeAttr(warpgroupsOfAttr));
      if (auto other = module.lookupSymbol<gpu::GPUFuncOp>(name))
        other.erase();
      form.setName(name);
    }
  }
};

} // namespace
