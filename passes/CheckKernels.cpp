//===- CheckKernels.cpp - kvc-check-kernels -------------------------------===//
//
// Level fused can be written by hand. What is checked here is what kernel
// builders and the manifest take for granted.
//
//===----------------------------------------------------------------------===//

#include "dialect/Behind.h"
#include "passes/CheckOp.h"
#include "passes/Clearing.h"
#include "passes/Passes.h"
#include "passes/Stages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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

/// The axes of each result, as kvc-infer-axes would write them; empty for those
/// of no tensor.
LogicalResult inferResults(Operation *op, MutableArrayRef<AxisList> results) {
  if (llvm::none_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return success();
  if (auto inferable = dyn_cast<AxesOpInterface>(op)) {
    SmallVector<AxisList> operands;
    for (Value operand : op->getOperands())
      operands.push_back(axesOf(operand.getType()));
    if (failed(inferable.inferAxes(operands, results)))
      return failure();
    // A broadcast may widen the heads.
    Axis heads = headsOf(op->getResult(0).getType());
    if (isa<BroadcastOp>(op) && joinHeads(results[0].front(), heads) == heads)
      results[0].front() = heads;
    return success();
  }
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      results[0] = axesOf(operand.getType());
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
  SmallVector<AxisList> results(op->getNumResults());
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
    if (!Stages::hasQueries(type) || axesOf(type).size() != 3)
      return std::nullopt;
    return cast<RankedTensorType>(type).getDimSize(1);
  };
  if (int64_t queries = needsOf(op).queries)
    if (windowOf(op->getResult(0).getType()) != queries)
      return op->emitOpError("rows must have the extent of 'last', got ")
             << op->getResult(0).getType();
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
    int64_t queries = needsOf(read).queries;
    attends |= queries != 0;
    all |= ShapedType::isDynamic(queries);
  });
  if (!attends || all != ShapedType::isDynamic(*extent) ||
      (all && reduce.getAxis() == ReduceAxis::Heads))
    return op->emitOpError("rows must come from kvc.attention, those of all "
                           "queries not be reduced over all heads, got ")
           << reduce.getValue().getType();
  return success();
}

/// Values that must have been stored before an op reads them at several tokens,
/// and those that it stores itself.
LogicalResult checkOperands(Operation *op) {
  if (auto known = dyn_cast<NeedsOpInterface>(op);
      known && failed(known.verifyFused()))
    return failure();
  Needs needs = needsOf(op);
  for (OpOperand *row : needs.rows) {
    Operation *def = row->get().getDefiningOp();
    if (def && !isa<StoreOp>(def))
      return op->emitOpError("reads a row, which must be an argument of the "
                             "kernel or come from kvc.store");
  }
  auto yields = [&](Value value) {
    return llvm::is_contained(op->getBlock()->getTerminator()->getOperands(),
                              value);
  };
  if (needs.writesResults && !llvm::all_of(op->getResults(), yields))
    return op->emitOpError("must be a result of the kernel");
  return success();
}

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

/// Ops that a kernel of their own computes, on what kernels in front have made.
bool isSingle(std::optional<KernelKind> kind) {
  return kind && !Stages::kindOf(*kind);
}

LogicalResult checkSingle(KernelOp kernel) {
  auto body = kernel.getBody().front().without_terminator();
  KernelKind kind = kernel.getKind();
  SmallVector<Operation *> ops;
  for (Operation &op : body)
    if (isSingle(needsOf(&op).kernel))
      ops.push_back(&op);
  if (!isSingle(kind)) {
    if (ops.empty())
      return success();
    return ops.front()->emitOpError("needs a kernel of its own, got one of "
                                    "kind ")
           << stringifyKernelKind(kind);
  }
  auto yield = cast<YieldOp>(kernel.getBody().front().back());
  if (ops.size() != 1 || needsOf(ops[0]).kernel != kind ||
      !llvm::equal(yield.getValues(), ops[0]->getResults()))
    return kernel.emitOpError("of kind ")
           << stringifyKernelKind(kind)
           << " must hold one op of that kind and yield what it makes";
  llvm::SmallPtrSet<Operation *, 8> computed{ops[0]};
  for (Value operand : ops[0]->getOperands())
    walkBehind(operand, [&](Value value) {
      if (Operation *def = value.getDefiningOp())
        computed.insert(def);
      return true;
    });
  for (Operation &op : body)
    if (!computed.contains(&op) &&
        llvm::any_of(op.getResultTypes(), llvm::IsaPred<TensorType>))
      return op.emitOpError("has no place in a kernel of kind ")
             << stringifyKernelKind(kind);
  return success();
}

/// What a kernel yields can be stored.
LogicalResult checkStored(KernelOp kernel) {
  auto yield = cast<YieldOp>(kernel.getBody().front().back());
  for (Value value : yield.getValues()) {
    Operation *op = value.getDefiningOp();
    // These kinds have no loop over what is pointwise in tokens.
    bool own = kernel.getKind() == KernelKind::Sequence ||
               kernel.getKind() == KernelKind::Nearest ||
               kernel.getKind() == KernelKind::Norms;
    if (!op || (own && needsOf(op).kernel != kernel.getKind()) ||
        Stages::isVirtual(op))
      return yield.emitOpError("cannot store a value of a ")
             << stringifyKernelKind(kernel.getKind()) << " kernel, got "
             << value.getType();
    if (isAddedTo(value) && !clearingKernel(kernel))
      return op->emitOpError("adds to what a kernel in front must have set to "
                             "0, and there is none");
  }
  if (kernel.getKind() == KernelKind::Segments &&
      llvm::none_of(kernel.getBody().getOps(),
                    [](Operation &op) { return needsOf(&op).cut; }))
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
  // The lists are the caller's memory, so they come behind all scratch.
  Value indices = rows.getResultOf(lists[0].getIndices());
  Value counts = rows.getResultOf(lists[0].getCounts());
  bool listed =
      indices && counts &&
      llvm::equal(rows.getOutputs().take_back(2), ValueRange{indices, counts});
  bool read = merges ? !compact.getIns().empty() &&
                           compact.getIns()[0] ==
                               rows.getResultOf(members[0]->getResult(0))
                     : compact.getIns().size() >= 2 &&
                           llvm::equal(compact.getIns().take_front(2),
                                       ValueRange{indices, counts});
  if (!listed || !read)
    return compact.emitOpError("must read the lists that the kernel in front "
                               "of it yields last");
  if (merges && members[0]->isBeforeInBlock(lists[0]))
    return members[0]->emitOpError("must come behind kvc.list_kept");
  return success();
}

/// The same number in every launch: made of the same ops, in two kernels.
bool areEqual(Value a, Value b) {
  SmallVector<std::pair<Value, Value>> left{{a, b}};
  DenseSet<std::pair<Value, Value>> seen; // a value may have many users
  while (!left.empty()) {
    auto pair = left.pop_back_val();
    if (!seen.insert(pair).second)
      continue;
    Operation *one = pair.first.getDefiningOp(),
              *other = pair.second.getDefiningOp();
    if (!one || !other || one->getName() != other->getName() ||
        one->getAttrDictionary() != other->getAttrDictionary() ||
        one->getNumOperands() != other->getNumOperands())
      return false;
    for (auto [x, y] : llvm::zip(one->getOperands(), other->getOperands()))
      left.push_back({x, y});
  }
  return true;
}

/// The past is the same tokens for every kernel.
LogicalResult checkProtected(PolicyOp policy) {
  auto text = [](Value protect) {
    return protect.getDefiningOp<arith::ConstantOp>()
               ? std::to_string(constantOf(protect))
               : "a value that is known at launch only";
  };
  Value first;
  for (auto kernel : policy.getOps<KernelOp>()) {
    auto yield = cast<YieldOp>(kernel.getBody().front().back());
    Value protect = yield.getProtectLast();
    if (!protect)
      continue;
    if (!first)
      first = protect;
    if (areEqual(protect, first))
      continue;
    bool alike = text(protect) == text(first);
    return yield.emitOpError("must protect what the kernels in front do, got ")
           << text(protect) << " and "
           << (alike ? "one made in another way" : text(first));
  }
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
  return success(succeeded(checkProtected(policy)) &&
                 succeeded(checkEnd(policy)));
}

struct CheckKernelsPass : public kvc::impl::CheckKernelsBase<CheckKernelsPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(checkGraph(getOperation())))
      signalPassFailure();
  }
};

} // namespace
