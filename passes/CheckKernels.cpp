//===- CheckKernels.cpp - kvc-check-kernels -------------------------------===//
//
// Level fused can be written by hand. What is checked here is what kernel
// builders and the manifest take for granted.
//
//===----------------------------------------------------------------------===//

#include "passes/CheckOp.h"
#include "passes/Passes.h"
#include "passes/Stages.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSet.h"

namespace kvc {
#define GEN_PASS_DEF_CHECKKERNELS
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

//===----------------------------------------------------------------------===//
// One op
//===----------------------------------------------------------------------===//

bool isInput(Value value) { return isa<BlockArgument>(value); }

bool isInput(Value value, ArrayRef<Axis> axes) {
  return isInput(value) && ArrayRef(axesOf(value.getType())) == axes;
}

/// The axes of each result, as kvc-infer-axes would write them; empty for those
/// of no tensor.
LogicalResult inferResults(Operation *op, SmallVectorImpl<AxisList> &results) {
  const AxisList list{Axis::KVHeads, Axis::Kept}, counts{Axis::KVHeads};
  if (isa<ListOp, ListKeptOp>(op)) {
    results.append({list, counts});
    return success();
  }
  if (isa<ListMembersOp>(op)) {
    results.push_back(list);
    return success();
  }
  if (isa<GramOp>(op)) {
    results.push_back({Axis::QueryHeads, Axis::Channel, Axis::Channel});
    results.push_back({Axis::QueryHeads, Axis::Channel, Axis::Pair});
    return success();
  }
  if (op->getNumResults() != 1)
    return success();
  AxisList &result = results.emplace_back();
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type)
    return success();
  if (auto inferable = dyn_cast<AxesOpInterface>(op)) {
    SmallVector<AxisList> operands;
    for (Value operand : op->getOperands())
      operands.push_back(axesOf(operand.getType()));
    if (failed(inferable.inferAxes(operands, result)))
      return failure();
    // A broadcast may widen the heads.
    Axis heads = headsOf(type);
    if (isa<BroadcastOp>(op) && joinHeads(result.front(), heads) == heads)
      result.front() = heads;
    return success();
  }
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      result = axesOf(operand.getType());
  return success();
}

LogicalResult checkAxes(Operation *op) {
  auto checkType = [&](Type type) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && int64_t(axesOf(tensor).size()) != tensor.getRank())
      return op->emitOpError("tensors of level fused have their axes, got ")
             << type;
    return success();
  };
  for (Type type : op->getOperandTypes())
    if (failed(checkType(type)))
      return failure();
  for (Type type : op->getResultTypes())
    if (failed(checkType(type)))
      return failure();
  SmallVector<AxisList> results;
  if (failed(inferResults(op, results)))
    return failure();
  for (auto [axes, type] : llvm::zip(results, op->getResultTypes()))
    if (axes != axesOf(type))
      return op->emitOpError("result must have axes ")
             << AxesAttr::get(op->getContext(), axes) << ", got " << type;
  // What is left is elementwise.
  if (isa<KVCDialect>(op->getDialect()) || op->getNumResults() != 1)
    return success();
  for (Type type : op->getOperandTypes())
    if (isa<RankedTensorType>(type) &&
        axesOf(type) != axesOf(op->getResult(0).getType()))
      return op->emitOpError("operands and result must have the same axes, "
                             "got ")
             << type << " and " << op->getResult(0).getType();
  return success();
}

/// A window's extent is in the types: its attention's, along the whole way.
LogicalResult checkWindow(Operation *op) {
  auto windowOf = [](Type type) -> std::optional<int64_t> {
    if (!Stages::hasWindow(type) || axesOf(type).size() != 3)
      return std::nullopt;
    return cast<RankedTensorType>(type).getDimSize(1);
  };
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    int64_t wanted = attention.readsAll() ? ShapedType::kDynamic
                                          : constantOf(attention.getLast());
    if (windowOf(attention.getType()) != wanted)
      return op->emitOpError("rows must have the extent of 'last', got ")
             << attention.getType();
  }
  std::optional<int64_t> extent;
  if (op->getNumResults() == 1)
    extent = windowOf(op->getResult(0).getType());
  for (Type type : op->getOperandTypes())
    if (std::optional<int64_t> own = windowOf(type)) {
      // What is only repeated along a window has no extent of its own.
      if (extent && *extent != *own && !isa<BroadcastOp>(op))
        return op->emitOpError("rows must have the extent of what they are "
                               "computed from, got ")
               << type;
      extent = own;
    }
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce || !windowOf(reduce.getValue().getType()))
    return success();
  bool attends = false, all = false;
  Stages::forVirtual(op, [&](Operation *read) {
    auto attention = dyn_cast<AttentionOp>(read);
    attends |= bool(attention);
    all |= attention && attention.readsAll();
  });
  if (!attends || all != ShapedType::isDynamic(*extent) ||
      (all && reduce.getAxis() == ReduceAxis::Heads))
    return op->emitOpError("rows must come from kvc.attention, those of all "
                           "queries not be reduced over all heads, got ")
           << reduce.getValue().getType();
  return success();
}

/// Operands that other kernels must have made, and values that must have been
/// stored before an op reads them at several tokens.
LogicalResult checkOperands(Operation *op) {
  if (isa<FillOp>(op))
    return op->emitOpError("is a kvc.broadcast of a constant at level fused");
  if (auto attention = dyn_cast<AttentionOp>(op))
    if (attention.getLogits() ? bool(attention.getLse())
                              : !attention.getLse() ||
                                    !isInput(attention.getLse(),
                                             {Axis::QueryHeads, Axis::Window}))
      return op->emitOpError("weights, and only they, need the log-sum-exp as "
                             "an argument of the kernel");
  if (auto norm = dyn_cast<ProjectedNormOp>(op)) {
    OperandRange made = norm.getPrepared();
    if (!norm.getBound() && !made.empty())
      return op->emitOpError("only a bound has prepared operands");
    if (norm.getBound() &&
        (made.size() != 2 ||
         !isInput(made[0],
                  {Axis::QueryHeads, Axis::Channel, Axis::Channel}) ||
         !isInput(made[1], {Axis::QueryHeads, Axis::Channel, Axis::Pair})))
      return op->emitOpError("a bound needs the matrix and the sums of a gram "
                             "kernel as arguments of the kernel");
  }
  if (auto nearest = dyn_cast<NearestOp>(op)) {
    size_t sides = nearest.getTimes() ? 2 : 1;
    OperandRange made = nearest.getPrepared();
    bool good = made.size() == 4 + sides;
    for (size_t i = 0; good && i < made.size(); ++i) {
      const AxisList wanted = i >= 4   ? AxisList{Axis::KVHeads, Axis::Past}
                              : i % 2 ? AxisList{Axis::KVHeads}
                                      : AxisList{Axis::KVHeads, Axis::Kept};
      good = isInput(made[i], wanted) &&
             getElementTypeOrSelf(made[i].getType()).isInteger(32) == (i < 4);
    }
    if (!good)
      return op->emitOpError("needs the lists and counts of sources and "
                             "centres and the norms of each side as arguments "
                             "of the kernel");
  }
  auto segment = dyn_cast<SegmentOp>(op);
  bool ofRow = isa<PoolOp, TopkOp, CountMassOp>(op) ||
               (segment && !segment.getNext());
  if (ofRow && !Stages::isVirtual(op)) {
    Value value = op->getOperand(0);
    if (!isInput(value) && !value.getDefiningOp<StageOp>())
      return op->emitOpError("reads a row, which must be an argument of the "
                             "kernel or come from kvc.stage");
  }
  auto yields = [&](Value value) {
    return llvm::is_contained(
        op->getBlock()->getTerminator()->getOperands(), value);
  };
  auto reduce = dyn_cast<ReduceOp>(op);
  bool written = isa<ListOp, ListKeptOp, ListMembersOp, NearestOp,
                     AllocateHeadsOp, AllocateTableOp>(op) ||
                 (reduce && axesOf(reduce.getType()).back() == Axis::Channel);
  if (written && !llvm::all_of(op->getResults(), yields))
    return op->emitOpError("must be a result of the kernel");
  return success();
}

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

/// Kernels whose body is one op on their arguments, in order.
LogicalResult checkSingle(KernelOp kernel) {
  SmallVector<Operation *> ops;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (isa<RowStatisticsOp, RowLogSumExpOp, CombineStatisticsOp, GramOp,
            CompactOp, MergeOp>(op))
      ops.push_back(&op);
  bool good = ops.size() == 1;
  Operation *op = good ? ops.front() : nullptr;
  switch (kernel.getKind()) {
  case KernelKind::Statistics:
    good = isa_and_nonnull<RowStatisticsOp, RowLogSumExpOp>(op);
    break;
  case KernelKind::Combine:
    good = isa_and_nonnull<CombineStatisticsOp>(op);
    break;
  case KernelKind::Gram:
    good = isa_and_nonnull<GramOp>(op);
    break;
  case KernelKind::Compact:
    good = isa_and_nonnull<CompactOp, MergeOp>(op);
    break;
  default:
    if (ops.empty())
      return success();
    return ops.front()->emitOpError("needs a kernel of its own, got one of "
                                    "kind ")
           << stringifyKernelKind(kernel.getKind());
  }
  auto yield = cast<YieldOp>(kernel.getBody().front().back());
  if (!good || !llvm::equal(yield.getValues(), op->getResults()))
    return kernel.emitOpError("of kind ")
           << stringifyKernelKind(kernel.getKind())
           << " must hold one op of that kind and yield what it makes";
  for (Operation &other : kernel.getBody().front().without_terminator())
    if (&other != op && !isa<MergeOp>(op) &&
        llvm::any_of(other.getResultTypes(), llvm::IsaPred<TensorType>))
      return other.emitOpError("has no place in a kernel of kind ")
             << stringifyKernelKind(kernel.getKind());
  bool reads = isa<CombineStatisticsOp, CompactOp, MergeOp>(op);
  if (reads && !isInput(op->getOperand(0)))
    return op->emitOpError("reads arguments of the kernel");
  return success();
}

/// What a kernel yields can be stored.
LogicalResult checkStored(KernelOp kernel) {
  auto yield = cast<YieldOp>(kernel.getBody().front().back());
  for (Value value : yield.getValues()) {
    Operation *op = value.getDefiningOp();
    bool sequence = kernel.getKind() == KernelKind::Sequence &&
                    !isa_and_nonnull<AllocateHeadsOp, AllocateTableOp>(op);
    bool nearest = kernel.getKind() == KernelKind::Nearest &&
                   !isa_and_nonnull<NearestOp>(op);
    if (!op || sequence || nearest || Stages::isVirtual(op))
      return yield.emitOpError("cannot store a value of a ")
             << stringifyKernelKind(kernel.getKind()) << " kernel, got "
             << value.getType();
  }
  if (kernel.getKind() == KernelKind::Segments &&
      kernel.getBody().getOps<SegmentOp>().empty())
    return kernel.emitOpError("of kind segments must hold a kvc.segment");
  return success();
}

LogicalResult checkKernel(KernelOp kernel) {
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (failed(checkOp(&op)) || failed(checkAxes(&op)) ||
        failed(checkWindow(&op)) || failed(checkOperands(&op)))
      return failure();
  return success(succeeded(checkSingle(kernel)) &&
                 succeeded(Stages::verify(kernel)) &&
                 succeeded(checkStored(kernel)));
}

//===----------------------------------------------------------------------===//
// The policy
//===----------------------------------------------------------------------===//

/// The kept tokens are listed once, by the last kernel but one, and gathered by
/// the last.
LogicalResult checkEnd(PolicyOp policy) {
  SmallVector<ListKeptOp> lists;
  SmallVector<Operation *> gathers, members;
  policy.walk([&](Operation *op) {
    if (auto list = dyn_cast<ListKeptOp>(op))
      lists.push_back(list);
    if (isa<CompactOp, MergeOp>(op))
      gathers.push_back(op);
    if (isa<ListMembersOp>(op))
      members.push_back(op);
  });
  auto kernels = llvm::to_vector(policy.getOps<KernelOp>());
  bool merges = gathers.size() == 1 && isa<MergeOp>(gathers[0]);
  if (lists.size() != 1 || gathers.size() != 1 ||
      members.size() != size_t(merges) || kernels.size() < 2 ||
      gathers[0]->getParentOp() != kernels.back() ||
      lists[0]->getParentOp() != kernels[kernels.size() - 2] ||
      (merges && members[0]->getParentOp() != lists[0]->getParentOp()))
    return policy.emitOpError("must end in a kernel that lists the kept tokens "
                              "and one that gathers or merges their rows");
  KernelOp rows = kernels[kernels.size() - 2], compact = kernels.back();
  ResultRange results = rows.getOutputs();
  auto yield = cast<YieldOp>(rows.getBody().front().back());
  size_t first = results.size() - 2;
  bool listed = llvm::equal(yield.getValues().drop_front(first),
                            lists[0]->getResults());
  bool read = merges ? compact.getInputs().size() >= 1 && first >= 1 &&
                           compact.getInputs()[0] == results[first - 1] &&
                           yield.getValues()[first - 1] ==
                               members[0]->getResult(0)
                     : llvm::equal(compact.getInputs(),
                                   results.drop_front(first));
  if (!listed || !read)
    return compact.emitOpError("must read the lists that the kernel in front "
                               "of it yields last");
  if (merges && members[0]->isBeforeInBlock(lists[0]))
    return members[0]->emitOpError("must come behind kvc.list_kept");
  return success();
}

LogicalResult checkGraph(PolicyOp policy) {
  llvm::StringSet<> names;
  for (Operation &op : policy.getBody().front()) {
    if (isa<DoneOp>(op))
      continue;
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel)
      return op.emitOpError("has no place between kernels");
    if (!names.insert(kernel.getName()).second)
      return kernel.emitOpError("name must be its own, got '")
             << kernel.getName() << "' twice";
    if (failed(checkKernel(kernel)))
      return failure();
  }
  return checkEnd(policy);
}

struct CheckKernelsPass : public kvc::impl::CheckKernelsBase<CheckKernelsPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(checkGraph(getOperation())))
      signalPassFailure();
  }
};

} // namespace
