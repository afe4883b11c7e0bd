//===- HostAlignment.cpp - kvc-host-alignment ------------------------------===//

#include "codegen/Passes.h"
#include "kvc/simt.h"

namespace kvc {
#define GEN_PASS_DEF_HOSTALIGNMENT
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

template <typename Access> static void lower(Access access) {
  if (access.getAlignment() && *access.getAlignment() > KVC_SIMT_ROW_ALIGNMENT)
    access.setAlignment(KVC_SIMT_ROW_ALIGNMENT);
}

namespace {

struct HostAlignmentPass
    : public kvc::impl::HostAlignmentBase<HostAlignmentPass> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (auto load = dyn_cast<vector::LoadOp>(op))
        lower(load);
      else if (auto store = dyn_cast<vector::StoreOp>(op))
        lower(store);
    });
  }
};

} // namespace
