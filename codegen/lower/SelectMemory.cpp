//===- SelectMemory.cpp - kvc-select-memory -------------------------------===//
//
// Where one of two rows is chosen for all tokens of a head, a loop loads from both and
// selects each time. LLVM makes one load of it, whose address it selects, in each step
// and in two registers. Here the memory is selected, in front of the loop.
//
//===----------------------------------------------------------------------===//

#include "codegen/Passes.h"
#include "codegen/lower/MemoryWrites.h"

namespace kvc {
#define GEN_PASS_DEF_SELECTMEMORY
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

/// A load whose only user selects it, of a whole argument of the kernel.
static memref::LoadOp loadOf(Value value) {
  auto load = value.getDefiningOp<memref::LoadOp>();
  if (!load || !load->hasOneUse())
    return {};
  auto cast = load.getMemref().getDefiningOp<memref::ReinterpretCastOp>();
  return cast && isa<BlockArgument>(cast.getSource()) &&
                 cast.getOffsets().empty() && cast.getSizes().empty() &&
                 cast.getStrides().empty()
             ? load
             : memref::LoadOp();
}

static bool isWrittenBetween(Operation *first, Operation *second) {
  for (Operation *op = first; op != second; op = op->getNextNode())
    if (mayWrite(op))
      return true;
  return false;
}

namespace {

class Selection {
public:
  /// One load in the place of the select, if it chooses between two.
  void run(arith::SelectOp select) {
    Value condition = select.getCondition();
    Block *block = select->getBlock();
    memref::LoadOp yes = loadOf(select.getTrueValue()),
                   no = loadOf(select.getFalseValue());
    if (!yes || !no || condition.getParentBlock() == block ||
        yes->getBlock() != block || no->getBlock() != block ||
        yes.getMemRefType() != no.getMemRefType() ||
        yes.getIndices() != no.getIndices())
      return;
    bool inOrder = yes->isBeforeInBlock(no);
    Operation *first = inOrder ? yes : no, *second = inOrder ? no : yes;
    auto from = yes.getMemref().getDefiningOp<memref::ReinterpretCastOp>(),
         other = no.getMemref().getDefiningOp<memref::ReinterpretCastOp>();
    if (from.getSource().getType() != other.getSource().getType() ||
        isWrittenBetween(first, second))
      return;
    Value &memory = chosen[{condition, from.getSource(), other.getSource()}];
    OpBuilder builder(select);
    if (!memory) {
      builder.setInsertionPointAfterValue(condition);
      memory = arith::SelectOp::create(builder, select.getLoc(), condition,
                                       from.getSource(), other.getSource());
    }
    builder.setInsertionPoint(second);
    auto whole = cast<memref::ReinterpretCastOp>(builder.clone(*from));
    whole.getSourceMutable().assign(memory);
    auto load = memref::LoadOp::create(builder, second->getLoc(), whole,
                                       yes.getIndices());
    select.getResult().replaceAllUsesWith(load);
    for (Operation *op : {select.getOperation(), first, second})
      op->erase();
  }

private:
  /// By condition and the memories of both.
  DenseMap<std::tuple<Value, Value, Value>, Value> chosen;
};

struct SelectMemoryPass : public kvc::impl::SelectMemoryBase<SelectMemoryPass> {
  void runOnOperation() override {
    getOperation().walk([](gpu::GPUFuncOp kernel) {
      Selection selection;
      kernel.walk([&](arith::SelectOp select) { selection.run(select); });
    });
  }
};

} // namespace
