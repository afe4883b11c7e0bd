//===- Stages.cpp - when an op of a policy can run ------------------------===//

#include "passes/Stages.h"

#include "dialect/Behind.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kvc;

std::optional<Stages::Kind> Stages::kindOf(KernelKind kernel) {
  switch (kernel) {
  case KernelKind::Sequence:
    return Sequence;
  case KernelKind::Columns:
    return Columns;
  case KernelKind::Segments:
    return Segments;
  case KernelKind::Rows:
    return Rows;
  case KernelKind::Spans:
    return Spans;
  case KernelKind::Nearest:
    return Nearest;
  case KernelKind::Norms:
    return Norms;
  case KernelKind::Statistics:
  case KernelKind::Combine:
  case KernelKind::Gram:
  case KernelKind::Parts:
  case KernelKind::Compact:
  case KernelKind::Keys:
    return std::nullopt;
  }
  return std::nullopt;
}

bool Stages::hasQueries(Type type) {
  return llvm::is_contained(axesOf(type), Axis::Query);
}

//===----------------------------------------------------------------------===//
// What an op needs
//===----------------------------------------------------------------------===//

namespace {

/// The ways in which an op cuts the past: its own, and those of vectors that it
/// computes.
void forCuts(Operation *op, llvm::function_ref<void(Operation *, Cut)> body) {
  auto own = [&](Operation *at) {
    if (std::optional<Cut> cut = needsOf(at).cut)
      body(at, *cut);
  };
  own(op);
  Stages::forVirtual(op, own);
}

bool anyCut(Operation *op, llvm::function_ref<bool(Cut)> holds) {
  bool found = false;
  forCuts(op, [&](Operation *, Cut cut) { found |= holds(cut); });
  return found;
}

bool needsSegments(Operation *op) {
  return anyCut(op, [](Cut) { return true; });
}

/// Ops that read values of the next segment, which is another block's work.
bool looksAhead(Operation *op) {
  return anyCut(op, [](Cut cut) { return cut.next; });
}

/// True for vectors that are computed from segments.
bool holdsSegments(Value value) {
  return Stages::isVirtual(value.getDefiningOp()) &&
         needsSegments(value.getDefiningOp());
}

bool sameCut(Cut a, Cut b) {
  auto same = [](Value x, Value y) {
    llvm::APInt one, other;
    return x == y || (matchPattern(x, m_ConstantInt(&one)) &&
                      matchPattern(y, m_ConstantInt(&other)) && one == other);
  };
  return same(a.length, b.length) && same(a.from, b.from);
}

/// The only stage that can run an op, if there is one.
std::optional<Stages::Kind> needsStage(Operation *op) {
  if (needsSegments(op))
    return Stages::Segments;
  std::optional<KernelKind> kernel = needsOf(op).kernel;
  return kernel ? Stages::kindOf(*kernel) : std::nullopt;
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

/// True where a kernel of whole rows reads what an op computes, or what follows of it
/// token by token.
bool isReadByRows(Operation *op) {
  bool found = false;
  llvm::SetVector<Operation *> behind;
  behind.insert(op);
  for (size_t i = 0; i < behind.size(); ++i)
    for (Value result : behind[i]->getResults())
      Stages::forUsers(result, [&](Operation *user) {
        std::optional<Stages::Kind> stage = needsStage(user);
        found |= stage == Stages::Rows;
        if (!stage)
          behind.insert(user);
      });
  return found;
}

/// True for what has of each token one value for all heads, of theirs. In a cache of
/// rows a token is another row in each head, or in none: only a columns kernel, which
/// walks the heads together, knows which.
bool joinsHeads(Operation *op) {
  return needsOf(op).otherHeads &&
         headsOf(op->getOperand(0).getType()) != Axis::OneHead;
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

/// Rows that are pooled: tiles of columns kernels overlap.
static bool poolsRows(Operation &op) {
  return Stages::isVirtual(&op) && needsOf(&op).otherTokens;
}

/// True where columns kernels have every token of a head once, and none walks all heads.
static bool hasTokensOnce(Block &body) {
  return llvm::none_of(body, [](Operation &op) {
    auto reduce = dyn_cast<ReduceOp>(op);
    return (reduce && reduce.getAxis() == ReduceAxis::Heads) || poolsRows(op);
  });
}

/// True where blocks of columns kernels have 64 tokens at least, and these once. Many
/// rows that wait in shared memory for all heads leave room for few warps.
static bool hasWholeParts(Block &body) {
  constexpr int64_t mostRows = 64;
  int64_t rows = 0;
  for (Operation &op : body) {
    auto reduce = dyn_cast<ReduceOp>(op);
    bool waits = reduce && reduce.getAxis() == ReduceAxis::Heads &&
                 Stages::hasQueries(reduce.getType());
    if (poolsRows(op))
      return false;
    if (!waits)
      continue;
    int64_t queries = cast<RankedTensorType>(reduce.getType()).getDimSize(1);
    if (ShapedType::isDynamic(queries))
      return false;
    rows += queries;
  }
  return rows <= mostRows;
}

bool Stages::canHaveDeviation(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && !isCheap(op) && of(op) > 0 && kindOf(of(op)) == Columns &&
         hasWholeParts(*op->getBlock());
}

LogicalResult Stages::assign(PolicyOp policy) {
  Block &body = policy.getBody().front();
  if (failed(checkRows(body)) || failed(checkSegments(body)))
    return failure();
  findRemade(body);
  assignMembers(body);
  if (failed(assignCarried(body)))
    return failure();
  tokensOnce = hasTokensOnce(body);
  if (!body.getOps<AttentionOp>().empty())
    firstOfNorms = nextStage(Columns + 1, Columns);
  auto placed = stageOf;
  auto cuts = cutOf;
  for (place(body); normsMeetHeads(); place(body)) {
    firstOfNorms += kinds;
    stageOf = placed;
    cutOf = cuts;
  }
  return success();
}

void Stages::place(Block &body) {
  for (Operation &op : body)
    if (!stageOf.count(&op) && !computeCheap(&op))
      stageOf[&op] = joinsCarried(&op) ? int(carried) : place(&op);
}

/// Norms behind the projection, not what bounds them, which come from a kernel of their own.
static bool isExactNorm(Operation *op) {
  return isa<ProjectedNormOp>(op) && !needsOf(op).prepared;
}

/// A columns kernel that walks all heads would walk their norms as well, one after the
/// other. What is made of norms comes behind them, so those heads are not theirs, and a
/// later stage has none.
bool Stages::normsMeetHeads() const {
  bool norms = false, heads = false;
  for (auto [op, stage] : stageOf) {
    if (stage != firstOfNorms)
      continue;
    norms |= isExactNorm(op);
    auto reduce = dyn_cast<ReduceOp>(op);
    heads |= reduce && reduce.getAxis() == ReduceAxis::Heads;
  }
  return norms && heads;
}

static bool hasMembers(Type type) {
  return llvm::is_contained(axesOf(type), Axis::Member);
}

/// What members have is computed in one walk over them, in front of all else.
void Stages::assignMembers(Block &body) {
  for (Operation &op : body)
    if (llvm::any_of(op.getResultTypes(), hasMembers) && !computeCheap(&op))
      stageOf[&op] = ofMembers;
}

/// True for what is made, row by row, from what rows carry and nothing else: it is
/// made with that.
bool Stages::joinsCarried(Operation *op) const {
  Needs needs = needsOf(op);
  if (op->getNumResults() != 1 || needsStage(op) || makesHeadValue(op) ||
      needs.otherTokens || needs.otherHeads ||
      headsOf(op->getResult(0).getType()) != Axis::KVHeads)
    return false;
  bool reads = false, onlyThat = true;
  forSources(op, [&](Value value, Reach) {
    if (isCheap(value.getDefiningOp()))
      return;
    bool carries = stageOf.lookup(value.getDefiningOp()) == carried;
    reads |= carries;
    onlyThat &= carries && headsOf(value.getType()) == Axis::KVHeads;
  });
  return reads && onlyThat;
}

/// What rows carry is computed in one walk over every row (C3 of kvc.keep): by the
/// first columns stage, but without a window, and so in front of it.
LogicalResult Stages::assignCarried(Block &body) {
  auto keep = cast<KeepOp>(body.back());
  llvm::SetVector<Operation *> needed;
  for (Value carried : keep.getCarried())
    walkBehind(carried, [&](Value value) {
      needed.insert(value.getDefiningOp());
      return true;
    });
  SmallVector<Operation *> ops;
  for (Operation &op : body) {
    if (!needed.contains(&op) || stageOf.count(&op))
      continue;
    bool cheap = computeCheap(&op);
    // Counts of heads are of the window, which is not known to every row.
    if (makesHeadValue(&op) || (!cheap && place(&op) != Columns))
      return op.emitOpError(
          "looks beyond a row, but rows carry what is computed "
          "from it (C3 of kvc.keep)");
    if (!cheap) {
      stageOf[&op] = Columns;
      ops.push_back(&op);
    }
  }
  for (Operation *op : ops)
    stageOf[op] = carried;
  return success();
}

LogicalResult Stages::verify(KernelOp kernel) {
  std::optional<Kind> kind = kindOf(kernel.getKind());
  if (!kind)
    return success();
  Block &body = kernel.getBody().front();
  if (failed(checkRows(body)) || failed(checkSegments(body)))
    return failure();
  Stages stages;
  stages.findRemade(body);
  stages.tokensOnce = hasTokensOnce(body);
  for (Operation &op : body.without_terminator()) {
    bool staging = isa<StoreOp>(op);
    if (!staging && stages.computeCheap(&op))
      continue;
    stages.stageOf[&op] = *kind;
    bool fits = staging ? *kind == Rows || *kind == Spans || *kind == Segments
                        : stages.place(&op) == *kind;
    fits &= !needsOf(&op).tokensOnce || hasWholeParts(body);
    if (!fits)
      return op.emitOpError("and what it reads cannot be computed in one ")
             << stringifyKernelKind(kernel.getKind()) << " kernel";
  }
  return success();
}

bool Stages::isVirtual(Operation *op) {
  if (!op || op->getNumResults() != 1)
    return false;
  AxisList axes = axesOf(op->getResult(0).getType());
  return axes.size() == 3 && axes[1] != Axis::Split && axes[1] != Axis::Member;
}

/// An op on virtual values that looks beyond its own point.
static Reach reachOf(Operation *op) {
  Needs needs = needsOf(op);
  return {needs.otherHeads, needs.otherTokens};
}

void Stages::forSources(Operation *op,
                        llvm::function_ref<void(Value, Reach)> body) {
  // Each virtual op once for what it is reached through.
  llvm::DenseSet<std::pair<Operation *, int>> seen;
  std::function<void(Operation *, Reach)> visit = [&](Operation *at,
                                                      Reach reach) {
    for (Value value : at->getOperands()) {
      Operation *def = value.getDefiningOp();
      if (!isVirtual(def)) {
        body(value, reach);
        continue;
      }
      Reach own = reachOf(def);
      Reach both{reach.otherHeads || own.otherHeads,
                 reach.otherTokens || own.otherTokens};
      if (seen.insert({def, 2 * both.otherHeads + both.otherTokens}).second)
        visit(def, both);
    }
  };
  visit(op, {});
}

void Stages::forUsers(Value value, llvm::function_ref<void(Operation *)> body) {
  llvm::SetVector<Value> found;
  found.insert(value);
  for (size_t i = 0; i < found.size(); ++i)
    for (Operation *user : found[i].getUsers())
      if (isVirtual(user))
        found.insert(user->getResult(0));
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
  if (isVirtual(op) || remade.contains(op))
    return true;
  if (needsStage(op) || joinsHeads(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value value) {
    return isCheap(value.getDefiningOp());
  });
}

/// The first stage in which an op can run behind what it reads.
int Stages::place(Operation *op) {
  int stage = joinsHeads(op) ? int(Columns) : 0;
  forSources(op, [&](Value value, Reach reach) {
    if (!isCheap(value.getDefiningOp()))
      stage = std::max(stage, stageAfter(op, value, reach));
  });
  std::optional<Kind> kind = needsStage(op);
  if (kind == Segments)
    return segmentsStage(stage, op);
  // What rows carry, and bounds, are made with the rest of their kernel.
  if (kind == Columns && isExactNorm(op))
    stage = std::max(stage, firstOfNorms);
  // Its operand is at hand, and no kernel need read it.
  if (needsOf(op).joinsColumns && tokensOnce && kindOf(stage) == Columns &&
      stage > 0)
    return stage;
  if (kind)
    return nextStage(stage, *kind);
  // What is pointwise joins its operands, where that kernel has a loop for it.
  bool joins = kindOf(stage) == Rows || kindOf(stage) == Spans;
  if (!joins && (makesHeadValue(op) || kindOf(stage) == Sequence ||
                 kindOf(stage) == Nearest || kindOf(stage) == Norms))
    return nextStage(stage, Spans);
  return stage;
}

/// The first stage in which an op can read one of its sources.
int Stages::stageAfter(Operation *op, Value value, Reach reach) const {
  int stage = stageOf.lookup(value.getDefiningOp());
  if (stage < 0)
    return Sequence; // in memory for every other stage
  Kind kind = kindOf(stage);
  Needs needs = needsOf(op);
  bool ofRows = llvm::any_of(op->getOperandTypes(), hasQueries);
  // Another head's row is another block's work: read it from memory.
  if (kind != Columns && needs.otherHeads)
    return nextStage(stage, Columns);
  if (kind != Columns && reach.otherHeads)
    return stage + 1;
  // One block would walk all heads' costly values (norms behind the
  // projection): read them from memory too.
  if (needs.otherHeads && isComputedFrom(value, stage, [](Operation *op) {
        return needsOf(op).costly;
      }))
    return nextStage(stage + 1, Columns);
  // A columns kernel has its sums when all rows have gone by, each thread
  // those of its own head and token. Rows need them before, heads and pools
  // those of others.
  if (kind == Columns && (ofRows || reach.otherHeads || reach.otherTokens) &&
      isFinishedLate(value, stage))
    return stage + 1;
  // A pool of rows or vectors would walk the channels again for each of its tokens,
  // and for each channel of its own.
  if (reach.otherTokens && isComputedFrom(value, stage, [](Operation *op) {
        return needsOf(op).walksChannels;
      }))
    return stage + 1;
  // One row for all heads is known only when a columns kernel has walked
  // all heads: what it gives to each head comes after it, where it is read.
  if (kind == Columns && widensHeads(op, value))
    return nextStage(stage, isReadByRows(op) ? Rows : Spans);
  // These look at what other blocks have stored; a block of a spans kernel
  // computes again what it stores for callers, and what it can make of any head.
  bool isMade = value.getDefiningOp<StoreOp>() ||
                (needs.asksHeads && needsOf(value.getDefiningOp()).ofAnyHead);
  if (needs.otherBlocks && !isMade)
    return stage + 1;
  // What near tokens have is computed again for each of them, but not pools of
  // pools.
  if (kind == Spans && needs.otherTokens &&
      isComputedFrom(value, stage,
                     [](Operation *op) { return needsOf(op).otherTokens; }))
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
  Cut own;
  forCuts(op, [&](Operation *, Cut cut) { own = cut; });
  stage = nextStage(stage, Segments);
  while (cutOf.count(stage) && !sameCut(cutOf.lookup(stage), own))
    stage += kinds;
  cutOf.try_emplace(stage, own);
  return stage;
}

/// True where a value is computed in `stage` from an op of that stage.
bool Stages::isComputedFrom(Value value, int stage,
                            llvm::function_ref<bool(Operation *)> is) const {
  bool found = false;
  walkBehind(value, [&](Value behind) {
    Operation *op = behind.getDefiningOp();
    bool ofStage = !isCheap(op) && stageOf.lookup(op) == stage;
    found |= ofStage && is(op);
    return ofStage || isVirtual(op);
  });
  return found;
}

/// True where a columns kernel has a value only behind all rows: what is
/// reduced over rows or heads, and norms behind the projection.
bool Stages::isFinishedLate(Value value, int stage) const {
  return isComputedFrom(value, stage,
                        [](Operation *op) { return needsOf(op).late; });
}

/// True for rows that are known only when all heads have been walked.
static bool isOfAllHeads(Value value) {
  bool found = false;
  walkBehind(value, [&](Value behind) {
    Operation *op = behind.getDefiningOp();
    if (!Stages::isVirtual(op))
      return false;
    found |= needsOf(op).otherHeads;
    return true;
  });
  return found;
}

/// A kernel walks the heads once: rows of one head cannot wait for the rows of
/// all (C5 of kvc.reduce).
LogicalResult Stages::checkRows(Block &body) {
  for (Operation &op : body)
    for (Value operand : op.getOperands())
      if (isVirtual(&op) && hasQueries(operand.getType()) &&
          widensHeads(&op, operand) && isOfAllHeads(operand))
        return op.emitError("rows that are reduced over all heads must be "
                            "reduced over queries before they are used "
                            "with rows per head");
  return success();
}

/// Vectors of segments live in the block of one segment (C3 of kvc.segment).
LogicalResult Stages::checkSegments(Block &body) {
  for (Operation &op : body) {
    SmallVector<std::pair<Operation *, Cut>> cuts;
    forCuts(&op, [&](Operation *at, Cut cut) { cuts.push_back({at, cut}); });
    Needs needs = needsOf(&op);
    bool first = needs.kernel == KernelKind::Rows ||
                 needs.kernel == KernelKind::Spans || needs.otherHeads;
    if (!cuts.empty() && (first || needs.otherTokens))
      return op.emitOpError("vectors of segments must be reduced over channels "
                            "first");
    for (auto [at, cut] : cuts) {
      if (!sameCut(cuts.front().second, cut))
        return cuts.front().first->emitOpError(
            "vectors that are set against segments of two lengths or origins "
            "need to be reduced over channels between");
      if (cut.next && llvm::any_of(at->getOperands(), holdsSegments))
        return at->emitOpError("vectors of segments must be reduced over "
                               "channels before they are set against the next "
                               "segment");
    }
  }
  return success();
}
