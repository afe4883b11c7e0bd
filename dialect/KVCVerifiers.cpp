//===- KVCVerifiers.cpp - the invariants of the ops -----------------------===//
//
// The labels C1, C2 ... are those of the ops' descriptions and of the tests.
// What needs the whole policy is checked by kvc-check-policy instead.
//
//===----------------------------------------------------------------------===//

#include "dialect/KVCDialect.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kvc;

/// A name that C, PTX and a linker can write.
static bool isIdentifier(StringRef name) {
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name, isWord);
}

/// What a parameter can be bound to.
static bool isParameter(Attribute value) {
  if (auto real = dyn_cast<FloatAttr>(value))
    return real.getValue().isFinite();
  if (auto text = dyn_cast<StringAttr>(value))
    return parseFraction(text.getValue()).has_value();
  auto whole = dyn_cast<IntegerAttr>(value);
  return whole && whole.getType().isIndex();
}

LogicalResult PolicyOp::verify() {
  if (!isIdentifier(getSymName())) // C2
    return emitOpError("name must be letters, digits and _, not beginning with "
                       "a digit, got '")
           << getSymName() << "'";
  if (DictionaryAttr params = getParamsAttr())
    for (NamedAttribute param : params) // C3
      if (!isParameter(param.getValue()))
        return emitOpError("params must be whole numbers, finite floats and "
                           "decimal texts, got ")
               << param.getName() << " = " << param.getValue();
  return success();
}

LogicalResult PolicyOp::verifyRegions() {
  Operation *last =
      getBody().front().empty() ? nullptr : &getBody().front().back();
  if (!isa_and_nonnull<KeepOp, DoneOp>(last)) { // C1
    InFlightDiagnostic diag = emitOpError("body must end in kvc.keep, got ");
    return last ? diag << last->getName() : diag << "an empty body";
  }
  return success();
}

LogicalResult ParamOp::verify() {
  if (getName().empty() || getName().contains('=')) // C4
    return emitOpError("name must not be empty nor have '=' in it, got '")
           << getName() << "'";
  if (getValue().getType() != getType() ||
      !isa<IntegerAttr, FloatAttr, StringAttr>(getValue())) // C1
    return emitOpError("value must be a number of the result's type, got ")
           << getValue();
  if (auto real = dyn_cast<FloatAttr>(getValue()))
    if (!real.getValue().isFinite()) // C2
      return emitOpError("value must be finite, got ") << getValue();
  if (auto text = dyn_cast<StringAttr>(getValue()))
    if (!isa<FractionType>(getType()) || !parseFraction(text.getValue()))
      return emitOpError(
                 "a fraction must be a decimal of at most 4 places, 0 or "
                 "more and below 1024, got '")
             << text.getValue() << "'";
  return success();
}

LogicalResult FractionOp::verify() {
  if (!parseFraction(getText())) // C1
    return emitOpError("must be a decimal of at most 4 places, 0 or more and "
                       "below 1024, got '")
           << getText() << "'";
  return success();
}

LogicalResult AttentionOp::verify() {
  if (getLogits() && getRounded()) // C2
    return emitOpError("logits are not rounded: they are no weights");
  return success();
}

LogicalResult BroadcastOp::verify() {
  Type from = getValue().getType();
  auto tensor = dyn_cast<RankedTensorType>(from);
  Type element = tensor ? tensor.getElementType() : from;
  Type wanted = cast<RankedTensorType>(getType()).getElementType();
  if (element.isIndex() && !tensor)
    element = wanted.isF32() ? wanted : IntegerType::get(getContext(), 32);
  if (element != wanted) // C1
    return emitOpError("element types must be equal, got ")
           << element << " and " << wanted;
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  if (tensor && tensor.getRank() > rank) // C2
    return emitOpError("cannot broadcast rank ")
           << tensor.getRank() << " to rank " << rank;
  return success();
}

bool kvc::folds(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Mean:
  case ReduceKind::Sum:
  case ReduceKind::Max:
  case ReduceKind::Min:
    return true;
  case ReduceKind::Std:
    return false;
  }
  llvm_unreachable("all kinds are listed");
}

LogicalResult ReduceOp::verify() {
  int64_t from = cast<RankedTensorType>(getValue().getType()).getRank();
  int64_t to = cast<RankedTensorType>(getType()).getRank();
  bool queries = getAxis() == ReduceAxis::Queries;
  bool tokens = getAxis() == ReduceAxis::Tokens;
  bool channels = getAxis() == ReduceAxis::Channels;
  if ((queries || channels) && from != 3) // C1
    return emitOpError("over ")
           << stringifyReduceAxis(getAxis()) << " needs rank 3, got "
           << getValue().getType();
  if (getAxis() == ReduceAxis::Members && from != 2) // C1
    return emitOpError("over members needs rank 2, got ")
           << getValue().getType();
  int64_t want = queries || tokens || channels ? from - 1 : from;
  if (to != want) // C2
    return emitOpError("result must have rank ")
           << want << ", got " << getType();
  if (!folds(getKind()) && !tokens && !channels) // C3
    return emitOpError() << stringifyReduceKind(getKind())
                         << " goes with tokens and channels, got "
                         << stringifyReduceAxis(getAxis());
  return success();
}

LogicalResult PoolOp::verify() {
  if (getCountPadding() && getKind() != PoolKind::Mean) // C2
    return emitOpError("count_padding goes with mean, got ")
           << stringifyPoolKind(getKind());
  return success();
}

LogicalResult SegmentOp::verify() {
  bool scores =
      getKind() == SegmentKind::Softmax || getKind() == SegmentKind::Rank;
  if (scores && cast<RankedTensorType>(getType()).getRank() != 2) // C1
    return emitOpError() << stringifySegmentKind(getKind())
                         << " needs rank 2, got " << getType();
  return success();
}

LogicalResult ProjectedNormOp::verify() {
  if (getBound() && (getKind() != NormKind::L1 || getWhere())) // C1
    return emitOpError("bound goes with l1 and without where, got ")
           << stringifyNormKind(getKind()) << (getWhere() ? " where" : "");
  return success();
}

LogicalResult KeepOp::verify() {
  llvm::StringSet<> seen;
  for (StringAttr name : carriedNames(getNamesAttr())) { // C2
    if (!isIdentifier(name.getValue()))
      return emitOpError("what is carried must have a name of letters, digits "
                         "and _, not beginning with a digit, got '")
             << name.getValue() << "'";
    if (!seen.insert(name.getValue()).second)
      return emitOpError("what is carried must have a name of its own, got '")
             << name.getValue() << "' twice";
  }
  return success();
}

LogicalResult KernelOp::verify() {
  if (!getGram().empty() && getGram().size() != 2) // C5
    return emitOpError("gram must be a matrix and its sums, got ")
           << getGram().size() << " operands";
  bool canBe = llvm::is_contained(
      {KernelKind::Statistics, KernelKind::Combine, KernelKind::Columns},
      getKind());
  if ((getEveryRow() || getOfMembers()) && !canBe) // C6
    return emitOpError("of kind ")
           << stringifyKernelKind(getKind()) << " cannot be "
           << (getOfMembers() ? "of_members" : "for every_row");
  if (getOfMembers() != bool(getKeys())) // C6
    return emitOpError("of_members goes with keys, got ")
           << (getOfMembers() ? "none" : "keys without it");
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  Block &block = getBody().front();
  if (!llvm::equal(block.getArgumentTypes(), getOperandTypes())) // C1
    return emitOpError("body arguments must have the operands' types");
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || !llvm::equal(yield.getValues().getTypes(),
                             getOutputs().getTypes())) // C2
    return emitOpError("body must end in kvc.yield of the results' types");
  if (!isIdentifier(getName())) // C3
    return emitOpError("name must be letters, digits and _, not beginning with "
                       "a digit, got '")
           << getName() << "'";
  return success();
}
