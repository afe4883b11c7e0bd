//===- WarpKernel.cpp - values of a warp ------------------------------------===//

#include "codegen/lower/WarpKernel.h"

using namespace mlir;
using namespace kvc;

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

/// Addresses and sizes are 64 bits.
Type WarpKernel::scalarOf(Type type) {
  return type.isIndex() ? Type(b.getI64Type()) : type;
}

/// 16-bit floats are kept as their bits: LLVM would round what goes from block to block
/// by functions of a library.
Type WarpKernel::elementOf(Type type) {
  return type.isF16() || type.isBF16() ? Type(b.getI16Type()) : scalarOf(type);
}

VectorType WarpKernel::lanesOf(Type type) {
  return VectorType::get({warpSize}, elementOf(type));
}

Value WarpKernel::number(Type type, int64_t n) {
  return arith::ConstantOp::create(
      b, isa<FloatType>(type) ? TypedAttr(b.getFloatAttr(type, double(n)))
                              : TypedAttr(b.getIntegerAttr(type, n)));
}

Value WarpKernel::zeros(VectorType type) {
  return arith::ConstantOp::create(b, b.getZeroAttr(type));
}

Value WarpKernel::iota(Type element, int64_t stride) {
  SmallVector<Attribute> numbers;
  for (int64_t lane = 0; lane < warpSize; ++lane)
    numbers.push_back(b.getIntegerAttr(
        element, APInt(element.getIntOrFloatBitWidth(), uint64_t(lane * stride),
                       /*isSigned=*/true, /*implicitTrunc=*/true)));
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(VectorType::get({warpSize}, element), numbers));
}

Value WarpKernel::splat(Value scalar) {
  if (scalar.getType().isF16() || scalar.getType().isBF16())
    scalar = arith::BitcastOp::create(b, b.getI16Type(), scalar);
  return vector::BroadcastOp::create(
      b, VectorType::get({warpSize}, scalar.getType()), scalar);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void WarpKernel::define(Value value, Lanes lanes) {
  lanes.block = b.getInsertionBlock();
  Block::iterator at = b.getInsertionPoint();
  lanes.after = at == lanes.block->begin() ? nullptr : &*std::prev(at);
  LaneForm::Kind kind = forms.of(value).kind;
  ++(kind == LaneForm::Uniform  ? counts.uniform
     : kind == LaneForm::Linear ? counts.linear
                                : counts.varying);
  values[value] = std::move(lanes);
}

void WarpKernel::defineScalar(Value value, Value scalar) {
  Lanes lanes;
  lanes.base = scalar;
  lanes.stride = forms.of(value).stride;
  define(value, std::move(lanes));
}

void WarpKernel::defineVector(Value value, Value vector) {
  Lanes lanes;
  lanes.vector = lanes.full = vector;
  define(value, std::move(lanes));
}

void WarpKernel::insertWhereKnown(const Lanes &lanes) {
  if (lanes.after)
    b.setInsertionPointAfter(lanes.after);
  else
    b.setInsertionPointToStart(lanes.block);
}

Value WarpKernel::baseOf(Lanes &lanes, Type type) {
  if (!lanes.base) {
    OpBuilder::InsertionGuard guard(b);
    insertWhereKnown(lanes);
    lanes.base = number(scalarOf(type), 0);
  }
  return lanes.base;
}

Value WarpKernel::base(Value value) {
  return baseOf(values[value], value.getType());
}

Value WarpKernel::vector(Value value) {
  return vectorOf(values[value], value.getType());
}

Value WarpKernel::vectorOf(Lanes &lanes, Type type) {
  if (lanes.full)
    return lanes.full;
  OpBuilder::InsertionGuard guard(b);
  insertWhereKnown(lanes);
  Value sum = lanes.vector;
  auto add = [&](Value part) {
    sum = sum ? arith::AddIOp::create(b, sum, part).getResult() : part;
  };
  if (lanes.isLimited())
    add(limited(lanes, scalarOf(type)));
  else if (lanes.stride)
    add(iota(scalarOf(type), lanes.stride));
  if (lanes.base)
    add(splat(lanes.base));
  return lanes.full = sum ? sum : zeros(lanesOf(type));
}

SmallVector<Value> WarpKernel::wordsOf(Value value) {
  Lanes &lanes = values[value];
  if (!lanes.words.empty())
    return lanes.words;
  auto type = llvm::cast<VectorType>(value.getType());
  int64_t count = type.getNumElements() * type.getElementTypeBitWidth() / 32;
  OpBuilder::InsertionGuard guard(b);
  insertWhereKnown(lanes);
  Value words = vector::BitCastOp::create(
      b, VectorType::get({count}, b.getI32Type()), lanes.base);
  for (int64_t i = 0; i < count; ++i)
    lanes.words.push_back(splat(vector::ExtractOp::create(b, words, i)));
  return lanes.words;
}

Value WarpKernel::laneWords(const Lanes &lanes) {
  Value words = iota(b.getI32Type(), 1);
  if (!lanes.isLimited())
    return words;
  words = arith::MaxUIOp::create(b, words, splat(lanes.low));
  return arith::MinUIOp::create(b, words, splat(lanes.high));
}

Value WarpKernel::limited(const Lanes &lanes, Type element) {
  return resized(laneWords(lanes), element, /*isSigned=*/false);
}

Value WarpKernel::resized(Value value, Type type, bool isSigned) {
  Type from = value.getType(), to = type;
  if (auto lanes = dyn_cast<VectorType>(from))
    to = VectorType::get(lanes.getShape(), type);
  unsigned wide = type.getIntOrFloatBitWidth(),
           narrow = getElementTypeOrSelf(from).getIntOrFloatBitWidth();
  if (wide == narrow)
    return value;
  if (wide < narrow)
    return arith::TruncIOp::create(b, to, value);
  return isSigned ? arith::ExtSIOp::create(b, to, value).getResult()
                  : arith::ExtUIOp::create(b, to, value).getResult();
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// The 32 bits of a mask.
Value WarpKernel::bitsOf(Value mask) {
  Value word =
      vector::BitCastOp::create(b, VectorType::get({1}, b.getI32Type()), mask);
  return vector::ExtractOp::create(b, word, 0);
}

/// The active lanes for which `condition` holds.
Value WarpKernel::masked(Value condition) {
  return maskVector
             ? arith::AndIOp::create(b, maskVector, condition).getResult()
             : condition;
}

Value WarpKernel::activeBits() {
  return maskBits ? maskBits : number(b.getI32Type(), -1);
}
