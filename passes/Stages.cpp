//===- Stages.cpp - when an op of a policy can run ------------------------===//

#include "passes/Stages.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kvc;

bool Stages::hasWindow(Type type) {
  return llvm::is_contained(axesOf(type), Axis::Window);
}

//===----------------------------------------------------------------------===//
// What an op needs
//===----------------------------------------------------------------------===//

namespace {

/// Ops that only a columns kernel can run: they read K or V, or reduce what is
/// never stored.
bool needsColumns(Operation *op) {
  if (isa<NormOp, ProjectedNormOp>(op))
    return true;
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && (reduce.getAxis() == ReduceAxis::Window ||
                    reduce.getAxis() == ReduceAxis::Channels);
}

/// The segments that an op looks at: its own, and those of vectors that it
/// computes.
void forSegments(Operation *op, llvm::function_ref<void(SegmentOp)> body) {
  if (auto segment = dyn_cast<SegmentOp>(op))
    body(segment);
  for (Value value : op->getOperands())
    if (Stages::isVirtual(value.getDefiningOp()))
      forSegments(value.getDefiningOp(), body);
}

bool anySegment(Operation *op, llvm::function_ref<bool(SegmentOp)> holds) {
  bool found = false;
  forSegments(op, [&](SegmentOp segment) { found |= holds(segment); });
  return found;
}

bool needsSegments(Operation *op) {
  return anySegment(op, [](SegmentOp) { return true; });
}

/// Ops that read values of the next segment, which is another block's work.
bool looksAhead(Operation *op) {
  return anySegment(op, [](SegmentOp segment) { return segment.getNext(); });
}

/// True for vectors that are computed from segments.
bool holdsSegments(Value value) {
  return Stages::isVirtual(value.getDefiningOp()) &&
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
  return isa<PoolOp, TopkOp, SelectHeadsOp, CountMassOp, ListOp, ListKeptOp,
             ListMembersOp, KeepOp>(op);
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
  Block &body = policy.getBody().front();
  if (failed(checkRows(body)) || failed(checkSegments(body)))
    return failure();
  for (Operation &op : body)
    if (!computeCheap(&op))
      stageOf[&op] = place(&op);
  return success();
}

/// The stage whose ops a kernel holds; none for kernels of one op.
static std::optional<Stages::Kind> stageKind(KernelKind kind) {
  switch (kind) {
  case KernelKind::Sequence:
    return Stages::Sequence;
  case KernelKind::Columns:
    return Stages::Columns;
  case KernelKind::Segments:
    return Stages::Segments;
  case KernelKind::Rows:
    return Stages::Rows;
  case KernelKind::Nearest:
    return Stages::Nearest;
  case KernelKind::Statistics:
  case KernelKind::Combine:
  case KernelKind::Gram:
  case KernelKind::Compact:
    return std::nullopt;
  }
  return std::nullopt;
}

LogicalResult Stages::verify(KernelOp kernel) {
  std::optional<Kind> kind = stageKind(kernel.getKind());
  if (!kind)
    return success();
  Block &body = kernel.getBody().front();
  if (failed(checkRows(body)) || failed(checkSegments(body)))
    return failure();
  Stages stages;
  for (Operation &op : body.without_terminator()) {
    bool staging = isa<StageOp>(op);
    if (!staging && stages.computeCheap(&op))
      continue;
    stages.stageOf[&op] = *kind;
    bool fits = staging ? *kind == Rows || *kind == Segments
                        : stages.place(&op) == *kind;
    if (!fits)
      return op.emitOpError("and what it reads cannot be computed in one ")
             << stringifyKernelKind(kernel.getKind()) << " kernel";
  }
  return success();
}

bool Stages::isVirtual(Operation *op) {
  return op && op->getNumResults() == 1 &&
         axesOf(op->getResult(0).getType()).size() == 3;
}

/// An op on virtual values that looks beyond its own point.
static Reach reachOf(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return {reduce && reduce.getAxis() == ReduceAxis::Heads, isa<PoolOp>(op)};
}

void Stages::forSources(Operation *op,
                        llvm::function_ref<void(Value, Reach)> body,
                        Reach reach) {
  for (Value value : op->getOperands()) {
    Operation *def = value.getDefiningOp();
    if (!isVirtual(def)) {
      body(value, reach);
      continue;
    }
    Reach own = reachOf(def);
    forSources(def, body,
               {reach.otherHeads || own.otherHeads,
                reach.otherTokens || own.otherTokens});
  }
}

void Stages::forUsers(Value value,
                      llvm::function_ref<void(Operation *)> body) {
  for (Operation *user : value.getUsers())
    if (isVirtual(user))
      forUsers(user->getResult(0), body);
    else
      body(user);
}

void Stages::forVirtual(Operation *op,
                        llvm::function_ref<void(Operation *)> body) {
  llvm::SetVector<Operation *> found;
  std::function<void(Operation *)> visit = [&](Operation *at) {
    for (Value value : at->getOperands()) {
      Operation *def = value.getDefiningOp();
      if (!isVirtual(def) || found.contains(def))
        continue;
      visit(def);
      found.insert(def);
    }
  };
  visit(op);
  llvm::for_each(found, body);
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

/// The first stage in which an op can run behind what it reads.
int Stages::place(Operation *op) {
  int stage = 0;
  forSources(op, [&](Value value, Reach reach) {
    if (!isCheap(value.getDefiningOp()))
      stage = std::max(stage, stageAfter(op, value, reach));
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
  return stage;
}

/// The first stage in which an op can read one of its sources.
int Stages::stageAfter(Operation *op, Value value, Reach reach) const {
  int stage = stageOf.lookup(value.getDefiningOp());
  Kind kind = kindOf(stage);
  auto reduce = dyn_cast<ReduceOp>(op);
  bool acrossHeads = reduce && reduce.getAxis() == ReduceAxis::Heads;
  bool ofRows = reduce && reduce.getAxis() == ReduceAxis::Window;
  auto isProjectedNorm = [](Operation *op) { return isa<ProjectedNormOp>(op); };
  // Another head's row is another block's work: read it from memory.
  if (kind != Columns && acrossHeads)
    return nextStage(stage, Columns);
  if (kind != Columns && reach.otherHeads)
    return stage + 1;
  // One block would walk all heads' norms behind the projection, which are
  // the most expensive of all: read them from memory too.
  if (acrossHeads && isComputedFrom(value, stage, isProjectedNorm))
    return nextStage(stage + 1, Columns);
  // A columns kernel has its sums when all rows have gone by, each thread
  // those of its own head and token. Rows need them before, heads and pools
  // those of others.
  if (kind == Columns && (ofRows || reach.otherHeads || reach.otherTokens) &&
      isFinishedLate(value, stage))
    return stage + 1;
  // One row for all heads is known only when a columns kernel has walked
  // all heads: what it gives to each head comes after it.
  if (kind == Columns && widensHeads(op, value))
    return nextStage(stage, Rows);
  // These look at what other heads' kernels have stored.
  if (needsSequence(op) || needsNearest(op) || isa<SelectHeadsOp>(op))
    return stage + 1;
  // What another block of the kernel computes must have been stored.
  if (kind == Segments && (looksAhead(op) || reach.otherTokens))
    return stage + 1;
  // A vector of channels is complete when its kernel is.
  if (llvm::is_contained(axesOf(value.getType()), Axis::Channel))
    return stage + 1;
  return stage;
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

/// True where a value is computed in `stage` from an op of that stage.
bool Stages::isComputedFrom(Value value, int stage,
                            llvm::function_ref<bool(Operation *)> is) const {
  Operation *op = value.getDefiningOp();
  if (isCheap(op) || stageOf.lookup(op) != stage)
    return false;
  bool found = is(op);
  forSources(op, [&](Value source, Reach) {
    found |= isComputedFrom(source, stage, is);
  });
  return found;
}

/// True where a columns kernel has a value only behind all rows: what is
/// reduced over rows or heads, and norms behind the projection.
bool Stages::isFinishedLate(Value value, int stage) const {
  return isComputedFrom(value, stage, [](Operation *op) {
    auto reduce = dyn_cast<ReduceOp>(op);
    return isa<ProjectedNormOp>(op) ||
           (reduce && (reduce.getAxis() == ReduceAxis::Window ||
                       reduce.getAxis() == ReduceAxis::Heads));
  });
}

/// True for rows that are known only when all heads have been walked.
static bool isOfAllHeads(Value value) {
  Operation *op = value.getDefiningOp();
  if (!Stages::isVirtual(op))
    return false;
  auto reduce = dyn_cast<ReduceOp>(op);
  return (reduce && reduce.getAxis() == ReduceAxis::Heads) ||
         llvm::any_of(op->getOperands(), isOfAllHeads);
}

/// A kernel walks the heads once: rows of one head cannot wait for the rows of
/// all (C5 of kvc.reduce).
LogicalResult Stages::checkRows(Block &body) {
  for (Operation &op : body)
    for (Value operand : op.getOperands())
      if (isVirtual(&op) && hasWindow(operand.getType()) &&
          widensHeads(&op, operand) && isOfAllHeads(operand))
        return op.emitError("rows that are reduced over all heads must be "
                            "reduced over the window before they are used "
                            "with rows per head");
  return success();
}

/// Vectors of segments live in the block of one segment (C3 of kvc.segment).
LogicalResult Stages::checkSegments(Block &body) {
  for (Operation &op : body) {
    SmallVector<SegmentOp> cuts;
    forSegments(&op, [&](SegmentOp segment) { cuts.push_back(segment); });
    auto reduce = dyn_cast<ReduceOp>(op);
    bool first = reduce && (reduce.getAxis() == ReduceAxis::Tokens ||
                            reduce.getAxis() == ReduceAxis::Heads);
    if (!cuts.empty() && (first || isa<PoolOp>(op)))
      return op.emitOpError("vectors of segments must be reduced over channels "
                            "first");
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
