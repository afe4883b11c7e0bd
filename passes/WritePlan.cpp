//===- WritePlan.cpp - kvc-write-plan -------------------------------------===//
//
// What is known of a fused policy as a whole is said once, here. The manifest
// prints it, kernel builders read it.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/RankedScores.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kvc {
#define GEN_PASS_DEF_WRITEPLAN
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

class PlanWriter {
public:
  explicit PlanWriter(PolicyOp policy) : policy(policy) {}

  LogicalResult run() {
    for (auto kernel : policy.getOps<KernelOp>()) {
      if (failed(readBuffers(kernel)))
        return failure();
      readKernel(kernel);
    }
    listSkipped();
    Axis heads = Axis::KVHeads;
    std::optional<unsigned> scores;
    if (Value ranked = rankedScores(policy)) {
      scores = bufferOf(ranked);
      // What a kernel stores for itself has a row for each KV head.
      if (ranked.getDefiningOp<KernelOp>())
        heads = headsOf(ranked.getType());
    }
    policy.setPlanAttr(PlanAttr::get(
        policy.getContext(), readsAll ? ShapedType::kDynamic : queries,
        protectLast, lse, scores, heads,
        readsNew ? std::optional(queries) : std::nullopt, states, skipped,
        phases, buffers));
    return success();
  }

private:
  PolicyOp policy;
  int64_t queries = 0;
  bool readsAll = false, readsNew = false;
  std::optional<int64_t> protectLast = 0;
  std::optional<unsigned> lse;
  SmallVector<StringAttr> states;
  SmallVector<unsigned> skipped;
  SmallVector<Phase> phases;
  SmallVector<PlannedBuffer> buffers;

  void readKernel(KernelOp kernel) {
    bool lists = !kernel.getBody().getOps<ListKeptOp>().empty();
    phases.push_back(kernel.getKind() == KernelKind::Compact ? Phase::Compact
                     : kernel.getKind() == KernelKind::Gram  ? Phase::Prepare
                     : lists                                 ? Phase::Select
                                                             : Phase::Score);
    auto yield = cast<YieldOp>(kernel.getBody().front().back());
    if (Value protect = yield.getProtectLast(); protect && lists) {
      protectLast.reset();
      // As kernels take it: below 0 it is nothing, above every length all.
      if (protect.getDefiningOp<arith::ConstantOp>())
        protectLast = std::clamp<int64_t>(constantOf(protect), 0, INT32_MAX);
    }
    if (kernel.getLse())
      lse = bufferOf(kernel.getLse());
    kernel.getBody().walk([&](NeedsOpInterface op) {
      Needs needs = op.getNeeds();
      readsAll |= ShapedType::isDynamic(needs.queries);
      queries = std::max(queries, needs.queries);
      if (auto attention = dyn_cast<AttentionOp>(*op))
        readsNew |= attention.readsNew();
      if (auto compact = dyn_cast<CompactOp>(*op))
        states = carriedNames(compact.getNamesAttr());
      if (auto merge = dyn_cast<MergeOp>(*op))
        states = carriedNames(merge.getNamesAttr());
    });
  }

  /// Kernels whose results are read as log-sum-exps only, or by such kernels.
  void listSkipped() {
    auto isLse = [](KernelOp reader, OpOperand &use) {
      return llvm::any_of(reader.getLseMutable(),
                          [&](OpOperand &operand) { return &operand == &use; });
    };
    auto all = policy.getOps<KernelOp>();
    SmallVector<KernelOp> kernels(all.begin(), all.end());
    llvm::DenseSet<Operation *> found;
    for (KernelOp kernel : llvm::reverse(kernels))
      if (!kernel->use_empty() &&
          llvm::all_of(kernel->getUses(), [&](OpOperand &use) {
            auto reader = dyn_cast<KernelOp>(use.getOwner());
            return reader && (isLse(reader, use) || found.contains(reader));
          }))
        found.insert(kernel);
    for (unsigned number = 0; number < kernels.size(); ++number)
      if (found.contains(kernels[number]))
        skipped.push_back(number);
  }

  /// Buffers are numbered in the order in which they are met.
  LogicalResult readBuffers(KernelOp kernel) {
    auto yield = cast<YieldOp>(kernel.getBody().front().back());
    // The lists of kept tokens, which come last, are the caller's.
    size_t own = llvm::count_if(yield.getValues(), [](Value value) {
      return !value.getDefiningOp<ListKeptOp>();
    });
    ArrayAttr planned = kernel.getBuffersAttr();
    if ((planned ? planned.size() : 0) != own)
      return refuse(kernel);
    for (auto [value, index] :
         llvm::zip(yield.getValues(), llvm::seq<size_t>(0, own))) {
      auto result = cast<OpResult>(value);
      bool model =
          result.getResultNumber() < needsOf(result.getOwner()).inModelType;
      add(cast<BufferAttr>(planned[index]), value.getType(), false, model);
    }
    WalkResult result = kernel.getBody().walk([&](ScratchOpInterface op) {
      if (!op.getBufferAttr())
        return WalkResult::interrupt();
      add(op.getBufferAttr(), op->getResult(0).getType(), true, false);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return refuse(kernel);
    return success();
  }

  static LogicalResult refuse(KernelOp kernel) {
    return kernel.emitOpError("scratch must be numbered first "
                              "(kvc-plan-scratch)");
  }

  void add(BufferAttr buffer, Type type, bool perBlock, bool inModelType) {
    buffers.push_back({buffer.getFirst(), buffer.getLast(),
                       cast<RankedTensorType>(type), perBlock, inModelType});
  }

  /// The buffer of a kernel's result, or of what a kernel stores for itself.
  static unsigned bufferOf(Value value) {
    auto result = cast<OpResult>(value);
    if (auto scratch = dyn_cast<ScratchOpInterface>(result.getOwner()))
      return scratch.getBufferAttr().getIndex();
    auto maker = cast<KernelOp>(result.getOwner());
    return cast<BufferAttr>(maker.getBuffersAttr()[result.getResultNumber()])
        .getIndex();
  }
};

struct WritePlanPass : public kvc::impl::WritePlanBase<WritePlanPass> {
  void runOnOperation() override {
    if (!isa<DoneOp>(getOperation().getBody().front().back()))
      return; // not fused
    if (failed(PlanWriter(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
