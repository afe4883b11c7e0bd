//===- Stages.cpp - when an op of a policy can run ------------------------===//

#include "passes/Stages.h"

using namespace mlir;
using namespace kvc;

bool Stages::hasWindow(Type type) {
  return llvm::is_contained(axesOf(type), Axis::Window);
}

//===----------------------------------------------------------------------===//
// What an op needs
//===----------------------------------------------------------------------===//

namespace {

/// Ops that only a columns kernel can run: they read K or V, or rows that are
/// never stored.
bool needsColumns(Operation *op) {
  if (isa<AttentionOp, NormOp, ProjectedNormOp>(op))
    return true;
  auto reduce = dyn_cast<ReduceOp>(op);
  if (reduce && reduce.getAxis() == ReduceAxis::Channels)
    return true;
  auto windowed = [](Value value) {
    return Stages::hasWindow(value.getType());
  };
  return llvm::any_of(op->getOperands(), windowed) ||
         llvm::any_of(op->getResults(), windowed);
}

/// Ops that need a whole row of tokens, or make a value per head.
bool needsRows(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getAxis() == ReduceAxis::Tokens;
  // A pool of rows is a columns op.
  return isa<PoolOp, TopkOp, SelectHeadsOp, CountMassOp, ListOp, KeepOp>(op);
}

/// Ops that look at all heads at once.
bool needsSequence(Operation *op) {
  return isa<AllocateHeadsOp, AllocateTableOp>(op);
}

/// Ops that compare tokens with tokens.
bool needsNearest(Operation *op) { return isa<NearestOp>(op); }

/// Values with a channel axis and tokens are never stored, nor do they belong
/// to a stage: whoever reduces them computes them.
bool isVirtual(Operation *op) {
  return op->getNumResults() == 1 &&
         axesOf(op->getResult(0).getType()).size() == 3 &&
         axesOf(op->getResult(0).getType())[1] == Axis::Channel;
}

bool makesHeadValue(Operation *op) {
  return op->getNumResults() == 1 &&
         axesOf(op->getResult(0).getType()).size() == 1;
}

int nextStage(int stage, Stages::Kind kind) {
  while (Stages::kindOf(stage) != kind)
    ++stage;
  return stage;
}

bool widensHeads(Operation *op, Value operand) {
  return headsOf(operand.getType()) == Axis::OneHead &&
         llvm::any_of(op->getResultTypes(),
                      [](Type type) { return headsOf(type) != Axis::OneHead; });
}

} // namespace

//===----------------------------------------------------------------------===//
// Assignment
//===----------------------------------------------------------------------===//

LogicalResult Stages::assign(PolicyOp policy) {
  for (Operation &op : policy.getBody().front())
    assignStage(&op);
  return checkRowsStay();
}

void Stages::forSources(Operation *op,
                        llvm::function_ref<void(Value)> body) const {
  for (Value value : op->getOperands())
    if (isVirtual(value.getDefiningOp()))
      forSources(value.getDefiningOp(), body);
    else
      body(value);
}

void Stages::forUsers(Value value,
                      llvm::function_ref<void(Operation *)> body) const {
  for (Operation *user : value.getUsers())
    if (isVirtual(user))
      forUsers(user->getResult(0), body);
    else
      body(user);
}

bool Stages::computeCheap(Operation *op) const {
  if (isVirtual(op))
    return true;
  if (needsColumns(op) || needsRows(op) || needsSequence(op) ||
      needsNearest(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value value) {
    return isCheap(value.getDefiningOp());
  });
}

void Stages::assignStage(Operation *op) {
  if (computeCheap(op))
    return;
  auto reduce = dyn_cast<ReduceOp>(op);
  bool acrossHeads = reduce && reduce.getAxis() == ReduceAxis::Heads;
  int stage = 0;
  forSources(op, [&](Value value) {
    auto it = stageOf.find(value.getDefiningOp());
    if (it == stageOf.end())
      return;
    int before = it->second;
    Kind kind = kindOf(before);
    // Another head's row is another block's work: read it from memory.
    if (kind != Columns && acrossHeads)
      before = nextStage(before, Columns);
    // One block would walk all heads' norms behind the projection, which are
    // the most expensive of all: read them from memory too.
    else if (acrossHeads && holdsProjectedNorm(value, before))
      before = nextStage(before + 1, Columns);
    // One row for all heads is known only when a columns kernel has walked
    // all heads: what it gives to each head comes after it.
    else if (kind == Columns && widensHeads(op, value))
      before = nextStage(before, Rows);
    // These look at what other heads' kernels have stored.
    else if (needsSequence(op) || needsNearest(op) || isa<SelectHeadsOp>(op))
      before = before + 1;
    // A vector of channels is complete when its kernel is.
    else if (llvm::is_contained(axesOf(value.getType()), Axis::Channel))
      before = before + 1;
    stage = std::max(stage, before);
  });
  if (needsColumns(op))
    stage = nextStage(stage, Columns);
  else if (needsSequence(op))
    stage = nextStage(stage, Sequence);
  else if (needsNearest(op))
    stage = nextStage(stage, Nearest);
  else if (needsRows(op) || makesHeadValue(op) || kindOf(stage) == Sequence ||
           kindOf(stage) == Nearest)
    stage = nextStage(stage, Rows);
  stageOf[op] = stage;
}

/// True where a value is computed in `stage` from norms of that stage.
bool Stages::holdsProjectedNorm(Value value, int stage) const {
  Operation *op = value.getDefiningOp();
  if (!op || stageOf.lookup(op) != stage || isCheap(op))
    return false;
  return isa<ProjectedNormOp>(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return holdsProjectedNorm(operand, stage);
         });
}

/// Values with a window axis must be used in their own stage only.
LogicalResult Stages::checkRowsStay() const {
  for (auto [op, stage] : stageOf)
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers())
        if (hasWindow(result.getType()) && stageOf.lookup(user) != stage)
          return op->emitError("attention rows cannot be stored: reduce them "
                               "over the window before they are used by ")
                 << user->getName();
  return success();
}
