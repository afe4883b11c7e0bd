//===- EarlyLoads.cpp - kvc-early-loads -----------------------------------===//
//
// A division or a root that is rounded right has a rare case, for which the machine code
// of a GPU branches: ptxas moves nothing over it, so that of loads with a division
// between them each is waited for by itself.
//
//===----------------------------------------------------------------------===//

#include "codegen/Passes.h"
#include "codegen/lower/MemoryWrites.h"

namespace kvc {
#define GEN_PASS_DEF_EARLYLOADS
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

/// What ptxas branches for.
static bool branches(Operation *op) {
  return isa<arith::DivFOp, math::SqrtOp>(op);
}

/// Registers that a load of global memory takes; 0: it is none.
static int64_t loadedRegisters(Operation *op) {
  Value memory;
  if (auto load = dyn_cast<memref::LoadOp>(op))
    memory = load.getMemref();
  else if (auto load = dyn_cast<vector::LoadOp>(op))
    memory = load.getBase();
  else
    return 0;
  auto global =
      gpu::AddressSpaceAttr::get(op->getContext(), gpu::AddressSpace::Global);
  if (cast<MemRefType>(memory.getType()).getMemorySpace() != global)
    return 0;
  Type type = op->getResult(0).getType();
  auto vector = dyn_cast<VectorType>(type);
  int64_t bits = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  return ((vector ? vector.getNumElements() : 1) * bits + 31) / 32;
}

namespace {

/// The ops of a block between two that may write.
class Stretch {
public:
  void visit(Operation *op) {
    if (mayWrite(op)) {
      branch = nullptr;
      return;
    }
    if (!branch) {
      branch = branches(op) ? op : nullptr;
      registers = 0;
      return;
    }
    int64_t taken = loadedRegisters(op);
    if (!taken || registers + taken > most)
      return;
    SmallVector<Operation *> needed;
    if (!gather(op, needed))
      return;
    registers += taken;
    for (Operation *one : needed)
      one->moveBefore(branch);
  }

private:
  /// As many loads as a lane has of a few tokens; more would not fit beside what a kernel
  /// holds.
  static constexpr int64_t most = 32;
  Operation *branch = nullptr; // the first one
  int64_t registers = 0;

  /// What `op` needs behind the branch and `op` itself, in order. False where the branch
  /// is among it, or another load: that one did not fit.
  bool gather(Operation *op, SmallVector<Operation *> &needed) const {
    for (Value operand : op->getOperands()) {
      Operation *from = operand.getDefiningOp();
      if (!from || from->getBlock() != op->getBlock() ||
          from->isBeforeInBlock(branch) || llvm::is_contained(needed, from))
        continue;
      if (branches(from) || !isMemoryEffectFree(from) || !gather(from, needed))
        return false;
    }
    needed.push_back(op);
    return true;
  }
};

struct EarlyLoadsPass : public kvc::impl::EarlyLoadsBase<EarlyLoadsPass> {
  void runOnOperation() override {
    getOperation().walk([](Block *block) {
      Stretch stretch;
      for (Operation &op : llvm::make_early_inc_range(*block))
        stretch.visit(&op);
    });
  }
};

} // namespace
