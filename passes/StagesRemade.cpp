//===- StagesRemade.cpp - norms that their readers make again -------------===//

#include "passes/Stages.h"

#include "dialect/Behind.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kvc;

/// True for what no kernel has to store: constants, whatever their shape.
static bool isConstant(Value value) {
  bool constant = true;
  walkBehind(value, [&](Value behind) {
    bool tensor = isa<RankedTensorType>(behind.getType());
    constant &=
        !tensor || isa_and_nonnull<BroadcastOp, FillOp>(behind.getDefiningOp());
    return tensor;
  });
  return constant;
}

/// True where `reduce` reads vectors of `side` themselves, and beside them nothing but
/// what is made from `norms`: whoever has a row then has all of it.
static bool remakes(ReduceOp reduce, CacheSide side,
                    const llvm::SetVector<Value> &norms) {
  bool overTokens = reduce.getAxis() == ReduceAxis::Tokens;
  if (!(overTokens && folds(reduce.getKind())) &&
      reduce.getAxis() != ReduceAxis::Channels)
    return false;
  bool reads = false, pointwise = true, onlyThat = true;
  Stages::forVirtual(reduce, [&](Operation *op) {
    Needs needs = needsOf(op);
    auto vectors = dyn_cast<VectorsOp>(op);
    reads |= vectors && vectors.getSide() == side;
    pointwise &= !needs.otherTokens && !needs.otherHeads && !needs.cut;
  });
  Stages::forSources(reduce, [&](Value value, Reach) {
    onlyThat &= norms.contains(value) || isConstant(value);
  });
  // Over channels a token's other values are read where they are.
  return reads && pointwise && (onlyThat || !overTokens);
}

/// A norm is stored by a kernel of its own walk over the keys. Where all that it is
/// used for is to scale the very vectors, their readers have the row at hand: reading
/// it once less costs less than a sum a row more.
void Stages::findRemade(Block &body) {
  for (auto norm : body.getOps<NormOp>()) {
    llvm::SetVector<Value> norms;
    norms.insert(norm.getResult());
    auto isMade = [&](Value value) { return norms.contains(value); };
    // True where what `op` makes of them is known to whoever has the row.
    auto follows = [&](Operation *op) {
      bool only = true;
      if (isa<BroadcastOp>(op) && isVirtual(op)) {
        forUsers(op->getResult(0), [&](Operation *reader) {
          auto reduce = dyn_cast<ReduceOp>(reader);
          only &= reduce && remakes(reduce, norm.getSide(), norms);
        });
        return only;
      }
      only = op->hasTrait<OpTrait::Elementwise>() && !isVirtual(op) &&
             llvm::all_of(op->getOperands(), [&](Value operand) {
               return isMade(operand) || isConstant(operand);
             });
      if (only)
        norms.insert(op->getResult(0));
      return only;
    };
    if (llvm::all_of(body, [&](Operation &op) {
          return llvm::none_of(op.getOperands(), isMade) || follows(&op);
        }))
      remade.insert(norm);
  }
}
