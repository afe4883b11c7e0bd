//===- CheckPolicy.cpp - kvc-check-policy ---------------------------------===//

#include "passes/CheckOp.h"
#include "passes/Passes.h"

namespace kvc {
#define GEN_PASS_DEF_CHECKPOLICY
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// What level policy does not have, though its ops do.
LogicalResult checkLevel(Operation *op) {
  if (op->hasTrait<OfLevelFused>())
    return op->emitError("a policy that ends in kvc.keep has no ops of level "
                         "fused, got ")
           << op->getName();
  auto known = dyn_cast<NeedsOpInterface>(op);
  if (known && known.getPreparedMutable().size())
    return op->emitOpError("has operands of level fused in a policy that ends "
                           "in kvc.keep");
  for (Type type : op->getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (int64_t(tensor.getNumDynamicDims()) != tensor.getRank())
        return op->emitError(
                   "extents are known at launch and written '?', got ")
               << type;
  return success();
}

/// What ops ask of each other across the policy.
LogicalResult checkTogether(Block &body) {
  auto keep = cast<KeepOp>(body.back());
  SmallVector<StringAttr> carried = carriedNames(keep.getNamesAttr());
  if (Value destination = keep.getDestination();
      destination && !destination.getDefiningOp<NearestOp>()) // C4
    return keep.emitOpError("the destination must be made by kvc.nearest, got ")
           << destination.getDefiningOp()->getName();
  AttentionOp all, onlyNew, ofRows, ofMembers;
  for (Operation &op : body) {
    if (auto state = dyn_cast<RowStateOp>(op);
        state && !llvm::is_contained(carried, state.getNameAttr())) // C1
      return state.emitOpError(
                 "reads what no row carries: kvc.keep must carry ")
             << state.getNameAttr();
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      if (attention.readsAll())
        all = attention;
      if (attention.readsNew())
        onlyNew = attention;
      (attention.getMembers() ? ofMembers : ofRows) = attention;
    }
  }
  if (all && onlyNew) // C3
    return onlyNew.emitOpError("of the new queries cannot be in a policy that "
                               "reads all queries, too");
  if (ofRows && ofMembers) // C4
    return ofMembers.emitOpError("of members cannot be in a policy that reads "
                                 "that of rows, too");
  return success();
}

struct CheckPolicyPass : public kvc::impl::CheckPolicyBase<CheckPolicyPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (isa<DoneOp>(getOperation().getBody().front().back()))
      return; // fused: kvc-check-kernels
    for (Operation &op : getOperation().getBody().front())
      if (failed(checkLevel(&op)) || failed(checkOp(&op)))
        return signalPassFailure();
    if (failed(checkTogether(getOperation().getBody().front())))
      return signalPassFailure();
  }
};

} // namespace
