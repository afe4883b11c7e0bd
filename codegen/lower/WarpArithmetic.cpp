//===- WarpArithmetic.cpp - ops on the lanes' values ------------------------===//
//
// Ops on what is uniform stay scalars, others become vectors of 32; sums and products of
// indices keep their parts (Lanes) for as long as they can.
//
//===----------------------------------------------------------------------===//

#include "codegen/lower/WarpKernel.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kvc;

bool WarpKernel::sum(Operation &op) {
  Value result = op.getResult(0);
  Type type = scalarOf(result.getType());
  Lanes a = values[op.getOperand(0)], c = values[op.getOperand(1)];
  bool adds = isa<arith::AddIOp>(op);
  // A limit stays where only the base moves.
  if (adds && c.isLimited())
    std::swap(a, c);
  bool moves = !c.stride && !c.vector;
  for (Lanes *one : {&a, &c})
    if (one->isLimited() && !(one == &a && moves)) {
      one->vector = limited(*one, type);
      one->low = one->high = {};
      one->stride = 0;
    }
  auto add = [&](Value x, Value y) -> Value {
    if (!y)
      return x;
    if (adds && !x)
      return y;
    if (adds && isa<VectorType>(y.getType())) {
      Value &known = vectorSums[{b.getInsertionBlock(), x, y}];
      if (!known)
        known = arith::AddIOp::create(b, x, y);
      return known;
    }
    if (adds)
      return arith::AddIOp::create(b, x, y);
    if (!x)
      x = isa<VectorType>(y.getType()) ? zeros(lanesOf(type)) : number(type, 0);
    return arith::SubIOp::create(b, x, y);
  };
  Lanes lanes;
  lanes.base = add(a.base, c.base);
  lanes.stride = adds ? a.stride + c.stride : a.stride - c.stride;
  lanes.vector = add(a.vector, c.vector);
  lanes.low = a.low;
  lanes.high = a.high;
  define(result, std::move(lanes));
  return true;
}

bool WarpKernel::product(Operation &op) {
  Value x = op.getOperand(0), y = op.getOperand(1);
  if (isUniform(x))
    std::swap(x, y);
  if (!isUniform(y))
    return false;
  Value factor = base(y);
  Lanes a = values[x], lanes;
  APInt constant;
  bool known = matchPattern(y, m_ConstantInt(&constant)) &&
               constant.getSignificantBits() <= 64;
  if (a.base)
    lanes.base = arith::MulIOp::create(b, a.base, factor);
  Value rest = a.vector;
  if (a.isLimited()) {
    rest = limited(a, scalarOf(x.getType()));
  } else if (known) {
    lanes.stride =
        int64_t(uint64_t(a.stride) * uint64_t(constant.getSExtValue()));
  } else if (a.stride) {
    Value steps = iota(scalarOf(x.getType()), a.stride);
    rest = rest ? arith::AddIOp::create(b, rest, steps).getResult() : steps;
  }
  if (rest && isWide(op))
    lanes.vector = wide(op, rest, factor);
  else if (rest)
    lanes.vector = arith::MulIOp::create(b, rest, splat(factor));
  define(op.getResult(0), std::move(lanes));
  return true;
}

Value WarpKernel::clamped(Value number, int64_t low, int64_t high) {
  Type i64 = b.getI64Type();
  number = arith::MaxSIOp::create(b, number, this->number(i64, low));
  number = arith::MinSIOp::create(b, number, this->number(i64, high));
  return arith::TruncIOp::create(b, b.getI32Type(), number);
}

/// base + lane against what is uniform or the same, both indices, which do not wrap:
/// words of lanes are compared instead of 64 bits.
Value WarpKernel::compare(arith::CmpIPredicate predicate, Lanes &x, Lanes &y) {
  using Predicate = arith::CmpIPredicate;
  bool known =
      llvm::is_contained({Predicate::slt, Predicate::sle, Predicate::sgt,
                          Predicate::sge, Predicate::eq, Predicate::ne},
                         predicate);
  if (!known || (!isBase(x) && !isBaseAndLane(x)) ||
      (!isBase(y) && !isBaseAndLane(y)))
    return {};
  Value distance = arith::SubIOp::create(b, baseOf(y, b.getIndexType()),
                                         baseOf(x, b.getIndexType()));
  Value words = isBase(x) ? zeros(lanesOf(b.getI32Type())) : laneWords(x);
  if (!isBase(y))
    words = arith::SubIOp::create(b, words, laneWords(y));
  // The difference of two lanes' numbers is less than 32 either way.
  return arith::CmpIOp::create(b, predicate, words,
                               splat(clamped(distance, -warpSize, warpSize)));
}

/// The smaller or larger of base + lane and what is uniform, both indices.
bool WarpKernel::clamp(Operation &op) {
  Value x = op.getOperand(0), y = op.getOperand(1);
  if (isUniform(x))
    std::swap(x, y);
  if (!x.getType().isIndex() || !isBaseAndLane(values[x]) || !isUniform(y))
    return false;
  bool smaller = isa<arith::MinSIOp>(op);
  Value first = base(x), other = base(y);
  Lanes from = values[x], lanes;
  if (smaller)
    lanes.base = arith::MinSIOp::create(b, first, other);
  else // at least the last lane has what is uniform
    lanes.base = arith::MaxSIOp::create(
        b, first,
        arith::SubIOp::create(b, other, number(b.getI64Type(), warpSize - 1)));
  lanes.stride = 1;
  Value limit =
      clamped(arith::SubIOp::create(b, other, lanes.base), 0, warpSize - 1);
  auto within = [&](Value old, int64_t none) -> Value {
    if (!old)
      old = number(b.getI32Type(), none);
    return smaller ? arith::MinUIOp::create(b, old, limit).getResult()
                   : arith::MaxUIOp::create(b, old, limit).getResult();
  };
  lanes.low = within(from.low, 0);
  lanes.high = within(from.high, warpSize - 1);
  define(op.getResult(0), std::move(lanes));
  return true;
}

/// (base + lane) by a constant that is a multiple of a warp's size or divides it, where
/// no lane carries into the base.
bool WarpKernel::quotient(Operation &op) {
  LaneForm form = forms.of(op.getOperand(0));
  APInt constant;
  if (form.kind != LaneForm::Linear || form.stride != 1 ||
      !matchPattern(op.getOperand(1), m_ConstantInt(&constant)) ||
      constant.getSignificantBits() > 64)
    return false;
  int64_t divisor = constant.getSExtValue();
  if (form.multiple < warpSize || divisor <= 0 ||
      (divisor % warpSize && warpSize % divisor))
    return false;
  Type type = scalarOf(op.getResult(0).getType());
  Value first = base(op.getOperand(0)), by = base(op.getOperand(1));
  bool remainder = isa<arith::RemUIOp>(op);
  Lanes lanes;
  if (divisor >= warpSize) {
    lanes.stride = remainder;
    lanes.base = remainder ? arith::RemUIOp::create(b, first, by).getResult()
                           : arith::DivUIOp::create(b, first, by).getResult();
  } else {
    SmallVector<Attribute> numbers;
    for (int64_t lane = 0; lane < warpSize; ++lane)
      numbers.push_back(
          b.getIntegerAttr(type, remainder ? lane % divisor : lane / divisor));
    lanes.vector = arith::ConstantOp::create(
        b, DenseElementsAttr::get(VectorType::get({warpSize}, type), numbers));
    if (!remainder)
      lanes.base = arith::DivUIOp::create(b, first, by);
  }
  define(op.getResult(0), std::move(lanes));
  return true;
}

/// Casts of integers, index among them. Narrowing keeps the parts.
void WarpKernel::cast(Operation &op) {
  Value from = op.getOperand(0), to = op.getResult(0);
  Type type = scalarOf(to.getType());
  bool isSigned = isa<arith::IndexCastOp>(op);
  if (isUniform(from))
    return defineScalar(to, resized(base(from), type, isSigned));
  Lanes lanes = values[from];
  bool narrows = type.getIntOrFloatBitWidth() <=
                 scalarOf(from.getType()).getIntOrFloatBitWidth();
  if (!narrows || type.isInteger(1))
    return defineVector(to, resized(vector(from), type, isSigned));
  if (lanes.base)
    lanes.base = resized(lanes.base, type, isSigned);
  if (lanes.vector)
    lanes.vector = resized(lanes.vector, type, isSigned);
  // The limit is of lanes, not of the type.
  lanes.full = lanes.offsets = {};
  define(to, std::move(lanes));
}

/// An element of a value that is a vector in each lane.
void WarpKernel::element(vector::ExtractOp op) {
  SmallVector<Value> words = wordsOf(op.getSource());
  int64_t i = op.getStaticPosition().front();
  Type type = op.getType();
  if (type.getIntOrFloatBitWidth() == 32) {
    Value word = words[i];
    return defineVector(
        op, type.isF32()
                ? arith::BitcastOp::create(b, lanesOf(type), word).getResult()
                : word);
  }
  Value word = words[i / 2];
  if (i % 2)
    word = arith::ShRUIOp::create(b, word, splat(number(b.getI32Type(), 16)));
  defineVector(op, arith::TruncIOp::create(b, lanesOf(type), word));
}

LogicalResult WarpKernel::elementwise(Operation &op) {
  if (op.getNumResults() != 1 || op.getNumRegions())
    return fail(&op, "is not known");
  Value result = op.getResult(0);
  Type type = result.getType();
  // What lanes have made together may be the same in all.
  bool same = forms.of(result).isUniform();
  bool whole = same && llvm::all_of(op.getOperands(), [&](Value operand) {
                 return isUniform(operand);
               });
  // ... by numbers that differ otherwise than from lane to lane.
  bool exchanged = same && llvm::any_of(op.getOperands(), [&](Value operand) {
                     return forms.of(operand).kind == LaneForm::Varying;
                   });
  if (!isa<VectorType>(type) && !exchanged) {
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::TruncIOp>(op)) {
      cast(op);
      return success();
    }
    if (!whole &&
        (isa<arith::AddIOp, arith::SubIOp>(op) && !type.isInteger(1) ? sum(op)
         : isa<arith::MulIOp>(op) ? product(op)
                                  : false))
      return success();
    if (isa<arith::DivUIOp, arith::RemUIOp>(op) && quotient(op))
      return success();
    if (auto cmp = dyn_cast<arith::CmpIOp>(op);
        cmp && !whole && cmp.getLhs().getType().isIndex())
      if (Value mask = compare(cmp.getPredicate(), values[cmp.getLhs()],
                               values[cmp.getRhs()])) {
        defineVector(result, mask);
        return success();
      }
    if (isa<arith::MinSIOp, arith::MaxSIOp>(op) && !whole && clamp(op))
      return success();
  }
  if (whole) {
    // Constants and all else as they are, index as 64 bits.
    OperationState state(op.getLoc(), op.getName());
    for (Value operand : op.getOperands())
      state.addOperands(base(operand));
    state.addTypes(scalarOf(type));
    state.addAttributes(op.getAttrs());
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      defineScalar(
          result,
          type.isIndex()
              ? number(b.getI64Type(),
                       ::llvm::cast<IntegerAttr>(constant.getValue()).getInt())
              : b.clone(op)->getResult(0));
      return success();
    }
    defineScalar(result, b.create(state)->getResult(0));
    return success();
  }
  if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
    if (extract.hasDynamicPosition() || extract.getStaticPosition().size() != 1)
      return fail(&op, "must have a constant position");
    element(extract);
    return success();
  }
  if (auto bits = dyn_cast<vector::BitCastOp>(op)) {
    Lanes lanes;
    lanes.words = wordsOf(bits.getSource());
    define(bits, std::move(lanes));
    return success();
  }
  if (auto made = dyn_cast<vector::FromElementsOp>(op);
      made && made.getType().getElementTypeBitWidth() == 32) {
    Lanes lanes;
    for (Value element : made.getElements()) {
      Value word = vector(element);
      if (!element.getType().isInteger())
        word = arith::BitcastOp::create(b, lanesOf(b.getI32Type()), word);
      lanes.words.push_back(word);
    }
    define(made, std::move(lanes));
    return success();
  }
  if (isa<vector::VectorDialect>(op.getDialect()) || isa<VectorType>(type))
    return fail(&op, "differs by lane and is a vector in each");
  if (auto select = dyn_cast<arith::SelectOp>(op);
      select && forms.of(result).kind == LaneForm::Linear) {
    defineScalar(result, arith::SelectOp::create(b, base(op.getOperand(0)),
                                                 base(op.getOperand(1)),
                                                 base(op.getOperand(2))));
    return success();
  }
  // 16-bit floats are their bits but for the op itself.
  auto float16 = [&](Type type) -> Type {
    return type.isF16() || type.isBF16() ? VectorType::get({warpSize}, type)
                                         : Type();
  };
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    bool asScalar = i == (isa<arith::SelectOp>(op) ? 0 : 1) &&
                    (isa<arith::SelectOp>(op) || isWide(op));
    if (asScalar && isUniform(operand)) {
      operands.push_back(base(operand));
      continue;
    }
    Value lanes = vector(operand);
    if (Type real = float16(operand.getType()))
      lanes = arith::BitcastOp::create(b, real, lanes);
    operands.push_back(lanes);
  }
  // What inactive lanes divide by does not matter but must not be 0.
  if (isa<arith::DivUIOp, arith::RemUIOp, arith::DivSIOp, arith::RemSIOp>(op) &&
      maskVector && !isUniform(op.getOperand(1)))
    operands[1] = arith::SelectOp::create(b, maskVector, operands[1],
                                          splat(number(elementOf(type), 1)));
  Type real = float16(type);
  Value made;
  if (isWide(op)) {
    made = wide(op, operands[0], operands[1]);
  } else {
    OperationState state(op.getLoc(), op.getName(), operands,
                         {real ? real : Type(lanesOf(type))}, op.getAttrs());
    made = b.create(state)->getResult(0);
  }
  if (same) {
    defineScalar(result, vector::ExtractOp::create(b, made, 0));
    return success();
  }
  if (real)
    made = arith::BitcastOp::create(b, lanesOf(type), made);
  defineVector(result, made);
  return success();
}
