//===- Stages.cpp - when an op of a policy can run ------------------------===//

#include "passes/Stages.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kvc;

bool Stages::hasWindow(Type type) {
  return llvm::is_contained(axesOf(type), Axis::Window);
}

//===----------------------------------------------------------------------===//
// What an op needs
//===----------------------------------------------------------------------===//

namespace {

/// Values with a channel axis and tokens are never stored, nor do they belong
/// to a stage: whoever reduces them computes them.
bool isVirtual(Operation *op) {
  return op->getNumResults() == 1 &&
         axesOf(op->getResult(0).getType()).size() == 3 &&
         axesOf(op->getResult(0).getType())[1] == Axis::Channel;
}

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

/// The segments that an op looks at: its own, and those of vectors that it
/// computes.
void forSegments(Operation *op, llvm::function_ref<void(SegmentOp)> body) {
  if (auto segment = dyn_cast<SegmentOp>(op))
    body(segment);
  for (Value value : op->getOperands())
    if (value.getDefiningOp() && isVirtual(value.getDefiningOp()))
      forSegments(value.getDefiningOp(), body);
}

bool any(Operation *op, llvm::function_ref<bool(SegmentOp)> holds) {
  bool found = false;
  forSegments(op, [&](SegmentOp segment) { found |= holds(segment); });
  return found;
}

bool needsSegments(Operation *op) {
  return any(op, [](SegmentOp) { return true; });
}

/// Ops that read values of the next segment, which is another block's work.
bool looksAhead(Operation *op) {
  return any(op, [](SegmentOp segment) { return segment.getNext(); });
}

/// True for vectors that are computed from segments.
bool holdsSegments(Value value) {
  return isVirtual(value.getDefiningOp()) &&
         needsSegments(value.getDefiningOp());
}

bool sameCut(SegmentOp a, SegmentOp b) {
  auto same = [](Value x, Value y) {
    llvm::APInt one, other;
    return x == y || (matchPattern(x, m_ConstantInt(&one)) &&
                      matchPattern(y, m_ConstantInt(&other)) && one == other);
  };
  return same(a.getLength(), b.getLength()) && same(a.getFrom(), b.getFrom());
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
  return success(succeeded(checkRowsStay()) && succeeded(checkSegments()));
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
  if (needsColumns(op) || needsSegments(op) || needsRows(op) ||
      needsSequence(op) || needsNearest(op))
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
    // What another block of the kernel computes must have been stored.
    else if (kind == Segments && looksAhead(op))
      before = before + 1;
    // A vector of channels is complete when its kernel is.
    else if (llvm::is_contained(axesOf(value.getType()), Axis::Channel))
      before = before + 1;
    stage = std::max(stage, before);
  });
  if (needsSegments(op))
    stage = segmentsStage(stage, op);
  else if (needsColumns(op))
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

/// The first segments stage from `stage` on that cuts the past as `op` does.
int Stages::segmentsStage(int stage, Operation *op) {
  SegmentOp cut;
  forSegments(op, [&](SegmentOp segment) { cut = segment; });
  stage = nextStage(stage, Segments);
  while (cutOf.count(stage) && !sameCut(cutOf.lookup(stage), cut))
    stage += kinds;
  cutOf.try_emplace(stage, cut);
  return stage;
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

/// Vectors of segments live in the block of one segment (C3 of kvc.segment).
LogicalResult Stages::checkSegments() const {
  for (auto [op, stage] : stageOf) {
    SmallVector<SegmentOp> cuts;
    forSegments(op, [&](SegmentOp segment) { cuts.push_back(segment); });
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!cuts.empty() && reduce && reduce.getAxis() == ReduceAxis::Tokens)
      return reduce.emitOpError("vectors of segments must be reduced over "
                                "channels first");
    for (SegmentOp cut : cuts) {
      if (!sameCut(cuts.front(), cut))
        return cuts.front().emitOpError(
            "vectors that are set against segments of two lengths or origins "
            "need to be reduced over channels between");
      if (cut.getNext() && holdsSegments(cut.getValue()))
        return cut.emitOpError("vectors of segments must be reduced over "
                               "channels before they are set against the next "
                               "segment");
    }
  }
  return success();
}
