//===- Uniformity.cpp -----------------------------------------------------===//

#include "codegen/lower/Uniformity.h"

#include "codegen/simt/SIMT.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kvc;

static LaneForm uniform(int64_t multiple = 1) {
  return {LaneForm::Uniform, 0, multiple};
}
static LaneForm linear(int64_t stride, int64_t multiple) {
  return stride ? LaneForm{LaneForm::Linear, stride, multiple, 0}
                : uniform(multiple);
}
/// What pairs of lanes have in common only.
static LaneForm among(unsigned exchanges) {
  return exchanges == LaneForm::allExchanges
             ? uniform()
             : LaneForm{LaneForm::Varying, 0, 1, exchanges};
}
static const LaneForm varying = among(0);

static int64_t multipleOf(int64_t number) {
  if (number % LaneForm::maxMultiple == 0)
    return LaneForm::maxMultiple;
  return int64_t(1) << llvm::countr_zero(uint64_t(number));
}

/// What is known of a value that is one or the other, the same one in all lanes.
static LaneForm join(LaneForm a, LaneForm b) {
  if (a.kind == LaneForm::Varying || a.kind != b.kind || a.stride != b.stride)
    return LaneForm{LaneForm::Varying, 0, 1, a.exchanges & b.exchanges};
  a.multiple = std::min(a.multiple, b.multiple);
  return a;
}

static std::optional<int64_t> knownNumber(Value value) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)) &&
      number.getSignificantBits() <= 64)
    return number.getSExtValue();
  return std::nullopt;
}

Uniformity::Uniformity(gpu::GPUFuncOp kernel) {
  for (BlockArgument argument : kernel.getBody().getArguments())
    forms[argument] = uniform();
  visit(kernel.getBody().front());
}

bool Uniformity::diverges(Operation *op) const {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return !of(branch.getCondition()).isUniform();
  auto loop = cast<scf::ForOp>(op);
  return !of(loop.getLowerBound()).isUniform() ||
         !of(loop.getUpperBound()).isUniform() ||
         !of(loop.getStep()).isUniform();
}

void Uniformity::visit(Block &block) {
  for (Operation &op : block)
    visit(op);
}

void Uniformity::visit(Operation &op) {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return visit(branch);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visit(loop);
  for (Value result : op.getResults())
    forms[result] = resultOf(op);
}

void Uniformity::visit(scf::IfOp op) {
  visit(*op.thenBlock());
  if (op.elseBlock())
    visit(*op.elseBlock());
  LaneForm condition = of(op.getCondition());
  for (unsigned i = 0; i < op.getNumResults(); ++i) {
    LaneForm yes = of(op.thenYield().getOperand(i)),
             no = of(op.elseYield().getOperand(i));
    forms[op.getResult(i)] =
        condition.isUniform()
            ? join(yes, no)
            : among(condition.exchanges & yes.exchanges & no.exchanges);
  }
}

void Uniformity::visit(scf::ForOp op) {
  LaneForm from = of(op.getLowerBound()), step = of(op.getStep());
  bool together = !diverges(op);
  forms[op.getInductionVar()] =
      step.isUniform() && from.kind != LaneForm::Varying
          ? linear(from.stride, std::min(from.multiple, step.multiple))
          : varying;
  // Lanes leave a loop that diverges one after another, so what it carries differs.
  for (auto [argument, start] :
       llvm::zip(op.getRegionIterArgs(), op.getInitArgs()))
    forms[argument] = together ? of(start) : varying;
  for (bool changed = true; changed;) {
    changed = false;
    visit(*op.getBody());
    for (auto [argument, next] :
         llvm::zip(op.getRegionIterArgs(), op.getYieldedValues())) {
      LaneForm joined = join(of(argument), of(next));
      changed |= !(joined == of(argument));
      forms[argument] = joined;
    }
  }
  for (auto [result, argument] :
       llvm::zip(op.getResults(), op.getRegionIterArgs()))
    forms[result] = of(argument);
}

LaneForm Uniformity::productOf(Operation &op) const {
  LaneForm a = of(op.getOperand(0)), b = of(op.getOperand(1));
  int64_t multiple = std::min(a.multiple * b.multiple, LaneForm::maxMultiple);
  if (a.isUniform() && b.isUniform())
    return uniform(multiple);
  for (auto [form, factor] : {std::pair{a, knownNumber(op.getOperand(1))},
                              std::pair{b, knownNumber(op.getOperand(0))}})
    if (form.kind == LaneForm::Linear && factor &&
        std::abs(*factor) < (int64_t(1) << 20))
      return linear(form.stride * *factor, multiple);
  return amongOperands(op);
}

/// Of (base + lane) by a constant, where no lane carries into the base.
LaneForm Uniformity::quotientOf(Operation &op, bool remainder) const {
  LaneForm a = of(op.getOperand(0)), b = of(op.getOperand(1));
  if (a.isUniform() && b.isUniform())
    return uniform();
  std::optional<int64_t> divisor = knownNumber(op.getOperand(1));
  if (a.kind != LaneForm::Linear || a.stride != 1 || a.multiple < warpSize ||
      !divisor || *divisor <= 0 || *divisor % warpSize)
    return amongOperands(op);
  return remainder ? linear(1, warpSize) : uniform();
}

LaneForm Uniformity::resultOf(Operation &op) const {
  if (isa<gpu::ThreadIdOp>(op))
    return linear(1, warpSize);
  if (isa<gpu::BlockIdOp, simt::BallotOp, simt::SumOp>(op))
    return uniform();
  // Each lane has memory of its own, and in it numbers of its own.
  if (isa<memref::AtomicRMWOp, memref::AllocaOp, simt::MmaOp>(op))
    return varying;
  if (op.hasTrait<OpTrait::ConstantLike>()) {
    std::optional<int64_t> number = knownNumber(op.getResult(0));
    return uniform(number ? multipleOf(*number) : 1);
  }
  if (isa<arith::AddIOp, arith::SubIOp>(op)) {
    LaneForm a = of(op.getOperand(0)), b = of(op.getOperand(1));
    if (a.kind == LaneForm::Varying || b.kind == LaneForm::Varying)
      return amongOperands(op);
    return linear(isa<arith::AddIOp>(op) ? a.stride + b.stride
                                         : a.stride - b.stride,
                  std::min(a.multiple, b.multiple));
  }
  if (isa<arith::MulIOp>(op))
    return productOf(op);
  if (isa<arith::DivUIOp, arith::RemUIOp>(op))
    return quotientOf(op, isa<arith::RemUIOp>(op));
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::TruncIOp>(op)) {
    // Narrowing keeps the form, as the arithmetic is that of the type; widening
    // would have to know that no lane wraps.
    LaneForm a = of(op.getOperand(0));
    auto width = [](Value value) {
      Type type = value.getType();
      return type.isIndex()           ? 64u
             : isa<IntegerType>(type) ? type.getIntOrFloatBitWidth()
                                      : 0u;
    };
    unsigned to = width(op.getResult(0)), from = width(op.getOperand(0));
    if (a.isUniform() || (to && from && to <= from && to >= 32))
      return a;
    return amongOperands(op);
  }
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return of(select.getCondition()).isUniform()
               ? join(of(select.getTrueValue()), of(select.getFalseValue()))
               : amongOperands(op);
  if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op))
    return shuffle.getMode() == gpu::ShuffleMode::XOR ||
                   of(shuffle.getValue()).isUniform()
               ? among(of(shuffle.getValue()).exchanges)
               : varying;
  // All others, reads of memory among them, give the same for the same operands.
  return amongOperands(op);
}

LaneForm Uniformity::amongOperands(Operation &op) const {
  unsigned exchanges = LaneForm::allExchanges;
  for (Value operand : op.getOperands())
    exchanges &= of(operand).exchanges;
  return among(exchanges | exchangedBy(op));
}

/// What a lane and its partner make of their two values, in whichever order.
unsigned Uniformity::exchangedBy(Operation &op) const {
  if (!op.hasTrait<OpTrait::IsCommutative>() || op.getNumOperands() != 2)
    return 0;
  for (unsigned i : {0, 1}) {
    Value mine = op.getOperand(i);
    auto shuffle = op.getOperand(1 - i).getDefiningOp<gpu::ShuffleOp>();
    if (!shuffle || shuffle.getMode() != gpu::ShuffleMode::XOR ||
        shuffle.getValue() != mine)
      continue;
    if (std::optional<int64_t> mask = knownNumber(shuffle.getOffset()))
      if (*mask > 0 && *mask < warpSize && llvm::isPowerOf2_64(*mask))
        return unsigned(*mask);
  }
  return 0;
}
