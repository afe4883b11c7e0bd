//===- KVCFused.cpp - what ops have at level fused ------------------------===//
//
// Operands that other kernels make. Level fused can be written by hand, so they
// are checked.
//
//===----------------------------------------------------------------------===//

#include "dialect/KVCDialect.h"

using namespace mlir;
using namespace kvc;

//===----------------------------------------------------------------------===//
// Arguments of the kernel
//===----------------------------------------------------------------------===//

static bool isInput(Value value) { return isa<BlockArgument>(value); }

static bool isInput(Value value, ArrayRef<Axis> axes) {
  return isInput(value) && ArrayRef(axesOf(value.getType())) == axes;
}

/// Kernels of one op read what they are given, in order.
static LogicalResult readsInputs(Operation *op, ValueRange operands) {
  auto inputs = op->getBlock()->getArguments();
  if (operands.size() > inputs.size() ||
      !llvm::equal(operands, inputs.take_front(operands.size())))
    return op->emitOpError("reads the first arguments of the kernel");
  return success();
}

/// The extent of the queries, which are the second axis.
static int64_t queriesOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(1);
}

LogicalResult RowStatisticsOp::verifyFused() {
  if (queriesOf(getResult()) != constantOf(getLast()))
    return emitOpError("rows must have the extent of 'last', got ")
           << getType();
  return success();
}

LogicalResult RowLogSumExpOp::verifyFused() {
  if (!ShapedType::isDynamic(queriesOf(getResult())))
    return emitOpError("has a row for every query, whose extent is ?, got ")
           << getType();
  return success();
}

LogicalResult CombineStatisticsOp::verifyFused() {
  if (queriesOf(getResult()) != queriesOf(getPartial()))
    return emitOpError("rows must have the extent of what they are computed "
                       "from, got ")
           << getType();
  return readsInputs(*this, getPartial());
}

LogicalResult ReducePartOp::verifyFused() {
  if (!folds(getKind()))
    return emitOpError() << stringifyReduceKind(getKind()) << " has no parts";
  return success();
}

LogicalResult CombinePartsOp::verifyFused() {
  if (!folds(getKind()))
    return emitOpError() << stringifyReduceKind(getKind()) << " has no parts";
  AxisList axes = axesOf(getParts().getType());
  bool vectors = axes.size() == 3;
  if (!isInput(getParts(), axes) || axes[1] != Axis::Split ||
      (vectors && (axes[0] != Axis::KVHeads || axes[2] != Axis::Channel)))
    return emitOpError("must read what kvc.reduce_part has made");
  return success();
}

/// What the kernel in front that fills an argument of `op`'s kernel yields for it.
static OpResult madeFor(Operation *op, Value argument) {
  auto input = dyn_cast<BlockArgument>(argument);
  if (!input)
    return {};
  auto result = dyn_cast<OpResult>(
      cast<KernelOp>(op->getParentOp())->getOperand(input.getArgNumber()));
  if (!result)
    return {};
  auto maker = cast<KernelOp>(result.getOwner());
  auto yield = cast<YieldOp>(maker.getBody().front().getTerminator());
  return dyn_cast<OpResult>(yield.getValues()[result.getResultNumber()]);
}

LogicalResult CombineExpSumsOp::verifyFused() {
  OpResult most = madeFor(*this, getMosts()), sum = madeFor(*this, getSums());
  auto parts = most ? dyn_cast<ExpSumPartOp>(most.getOwner()) : nullptr;
  if (!parts || most != parts.getMost() || sum != parts.getSum())
    return emitOpError("must read what kvc.exp_sum_part has made");
  return success();
}

LogicalResult CombineDeviationsOp::verifyFused() {
  SmallVector<OpResult> made = llvm::map_to_vector(
      getOperands(), [&](Value parts) { return madeFor(*this, parts); });
  auto parts = made[0] ? dyn_cast<DeviationPartOp>(made[0].getOwner())
                       : DeviationPartOp();
  if (!parts || !llvm::equal(made, parts->getResults()))
    return emitOpError("must read what kvc.deviation_part has made");
  return success();
}

/// Numbers of heads, span by span: a block that had them all would work alone. What is
/// one for all heads is known by position, and stays whole.
void ReduceOp::prepare(OpBuilder &builder) {
  AxisList axes = axesOf(getValue().getType());
  if (getAxis() != ReduceAxis::Tokens || !folds(getKind()) ||
      axes.size() != 2 || axes.front() == Axis::OneHead)
    return;
  auto bare = RankedTensorType::get({1}, builder.getF32Type());
  Type type = withAxes(bare, {axes.front(), Axis::Split}, 0);
  Value parts =
      ReducePartOp::create(builder, getLoc(), type, getKind(), getValue());
  replaceAllUsesWith(
      CombinePartsOp::create(builder, getLoc(), getType(), getKind(), parts)
          .getResult());
  erase();
}

/// What rows carry is a KV head's, and made by other kernels or at once.
static LogicalResult checkCarried(Operation *op, ArrayAttr names,
                                  ValueRange carried) {
  if (carriedNames(names).size() != carried.size())
    return op->emitOpError("must have a name for each number that rows carry");
  for (Value value : carried)
    if (axesOf(value.getType()).back() != Axis::Past ||
        headsOf(value.getType()) == Axis::QueryHeads)
      return op->emitOpError("rows carry what KV heads have of the past, got ")
             << value.getType();
  return success();
}

LogicalResult CompactOp::verifyFused() {
  if (failed(checkCarried(*this, getNamesAttr(), getCarried())))
    return failure();
  return readsInputs(*this, {getIndices(), getCounts()});
}

LogicalResult MergeOp::verifyFused() {
  if (failed(checkCarried(*this, getNamesAttr(), getCarried())))
    return failure();
  return readsInputs(*this, getTokens());
}

LogicalResult FillOp::verifyFused() {
  return emitOpError("is a kvc.broadcast of a constant at level fused");
}

//===----------------------------------------------------------------------===//
// What is made for one op
//===----------------------------------------------------------------------===//

MutableOperandRange AttentionOp::getPreparedMutable() {
  return getLseMutable();
}

LogicalResult AttentionOp::verifyFused() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  bool made = getLse() && getLse() == kernel.getLseArg() &&
              isInput(getLse(), {Axis::QueryHeads, Axis::Query});
  if (getLogits() ? bool(getLse()) : !made)
    return emitOpError("weights, and only they, need the log-sum-exp as "
                       "'lse' of the kernel");
  if (!made || ShapedType::isDynamic(queriesOf(getLse())))
    return success();
  if (ShapedType::isDynamic(queriesOf(getResult())) ||
      queriesOf(getLse()) < queriesOf(getResult()))
    return emitOpError("the log-sum-exp must be that of its queries or more, "
                       "got ")
           << getLse().getType();
  return success();
}

/// The tokens that a mask marks, of each KV head, and how many there are.
static SmallVector<Value> listMarked(OpBuilder &builder, Location loc,
                                     Value mask) {
  auto i32 = RankedTensorType::get({1}, builder.getI32Type());
  auto list = ListOp::create(builder, loc,
                             withAxes(i32, {Axis::KVHeads, Axis::Kept}, 0),
                             withAxes(i32, {Axis::KVHeads}, 0), mask);
  return {list.getIndices(), list.getCounts()};
}

MutableOperandRange ProjectedNormOp::getPreparedMutable() {
  return getBound() ? getGramMutable() : getListMutable();
}

void ProjectedNormOp::prepare(OpBuilder &builder) {
  if (isListed())
    getListMutable().assign(listMarked(builder, getLoc(), getWhere()));
}

LogicalResult ProjectedNormOp::verifyFused() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  OperandRange made = getGram();
  if (!getBound() && !made.empty())
    return emitOpError("only a bound has a quadratic form");
  if (getBound() &&
      (made.size() != 2 || !llvm::equal(made, kernel.getGramArgs()) ||
       !isInput(made[0], {Axis::QueryHeads, Axis::Channel, Axis::Channel}) ||
       !isInput(made[1], {Axis::QueryHeads, Axis::Channel, Axis::Pair})))
    return emitOpError("a bound needs the matrix and the sums of a gram "
                       "kernel as 'gram' of the kernel");
  OperandRange list = getList();
  bool listed = list.size() == 2 &&
                isInput(list[0], {Axis::KVHeads, Axis::Kept}) &&
                isInput(list[1], {Axis::KVHeads});
  if (isListed() ? !listed : !list.empty())
    return emitOpError("marks that are not per query head, and only they, need "
                       "the list of the marked tokens and its length as "
                       "arguments of the kernel");
  return success();
}

/// Whether an op reads, as arguments of its kernel, what makeCandidates makes.
static bool readsCandidates(ValueRange made) {
  return made.size() >= 7 && isInput(made[0], {Axis::KVHeads}) &&
         isInput(made[1], {Axis::KVHeads, Axis::Bin}) &&
         isInput(made[2], {Axis::KVHeads, Axis::Split}) &&
         isInput(made[3], {Axis::KVHeads, Axis::Pair}) &&
         isInput(made[4], {Axis::KVHeads, Axis::Kept}) &&
         isInput(made[5], {Axis::KVHeads, Axis::Kept}) &&
         isInput(made[6], {Axis::KVHeads, Axis::Bin});
}

static constexpr const char *needsCandidates =
    "needs the candidates (their number, second digits, what is above them, "
    "the threshold's place, tokens and keys) and the first digits as arguments "
    "of the kernel";

/// The user of `score` that is an `Op`.
template <typename Op> static Op userOf(Value score) {
  for (Operation *user : score.getUsers())
    if (auto known = dyn_cast<Op>(user))
      return known;
  return {};
}

/// First digits of `score`, counted once, and what `count` makes of them.
static SmallVector<Value> makeCandidates(OpBuilder &builder, Location loc,
                                         Value score, Value count,
                                         bool allHeads) {
  auto i32 = RankedTensorType::get({1}, builder.getI32Type());
  auto digits = userOf<CountDigitsOp>(score);
  if (!digits)
    digits = CountDigitsOp::create(
        builder, loc, withAxes(i32, {Axis::KVHeads, Axis::Bin}, 0), score);
  Type list = withAxes(i32, {Axis::KVHeads, Axis::Kept}, 0);
  auto candidates = ListCandidatesOp::create(
      builder, loc, withAxes(i32, {Axis::KVHeads}, 0), digits.getType(),
      withAxes(i32, {Axis::KVHeads, Axis::Split}, 0),
      withAxes(i32, {Axis::KVHeads, Axis::Pair}, 0), list, list, score, count,
      digits, allHeads);
  auto made = llvm::to_vector<8>(
      llvm::map_range(candidates->getResults(), [](Value v) { return v; }));
  made.push_back(digits);
  return made;
}

/// Prefixes of the keys of `score`, once, beside its first digits.
static Value makePrefixes(Value score) {
  if (auto known = userOf<KeyPrefixOp>(score))
    return known;
  auto digits = userOf<CountDigitsOp>(score);
  OpBuilder builder(digits);
  auto i16 = RankedTensorType::get({1}, builder.getI16Type());
  return KeyPrefixOp::create(builder, digits.getLoc(),
                             withAxes(i16, {Axis::KVHeads, Axis::Past}, 0),
                             score);
}

LogicalResult ListCandidatesOp::verifyFused() {
  if (!isInput(getDigits(), {Axis::KVHeads, Axis::Bin}))
    return emitOpError("must read what kvc.count_digits has made");
  return success();
}

MutableOperandRange AllocateHeadsOp::getPreparedMutable() {
  return getCandidatesMutable();
}

void AllocateHeadsOp::prepare(OpBuilder &builder) {
  getCandidatesMutable().assign(
      makeCandidates(builder, getLoc(), getScore(), getBase(), true));
}

LogicalResult AllocateHeadsOp::verifyFused() {
  if (getCandidates().size() != 7 || !readsCandidates(getCandidates()))
    return emitOpError(needsCandidates);
  return success();
}

MutableOperandRange TopkOp::getPreparedMutable() {
  return getCandidatesMutable();
}

void TopkOp::prepare(OpBuilder &builder) {
  SmallVector<Value> made =
      makeCandidates(builder, getLoc(), getScore(), getCount(), false);
  made.push_back(makePrefixes(getScore()));
  getCandidatesMutable().assign(made);
}

LogicalResult TopkOp::verifyFused() {
  auto made = getCandidates();
  if (!readsCandidates(made))
    return emitOpError(needsCandidates);
  if (made.size() != 8 || !isInput(made[7], {Axis::KVHeads, Axis::Past}) ||
      !cast<RankedTensorType>(made[7].getType()).getElementType().isInteger(16))
    return emitOpError("needs what kvc.key_prefix has made as an argument of "
                       "the kernel, behind the candidates");
  return success();
}

MutableOperandRange NearestOp::getPreparedMutable() {
  unsigned first = getODSOperandIndexAndLength(3).first;
  return MutableOperandRange(*this, first, (*this)->getNumOperands() - first);
}

void NearestOp::prepare(OpBuilder &builder) {
  auto norms = withAxes(RankedTensorType::get({1}, builder.getF32Type()),
                        {Axis::KVHeads, Axis::Past}, 0);
  // One by one: where an operand stands depends on those in front of it.
  SmallVector<Value> sources = listMarked(builder, getLoc(), getSources()),
                     centres = listMarked(builder, getLoc(), getCentres());
  getSourceListMutable().assign(sources[0]);
  getSourceCountMutable().assign(sources[1]);
  getCentreListMutable().assign(centres[0]);
  getCentreCountMutable().assign(centres[1]);
  SmallVector<Value> sides;
  for (std::optional<CacheSide> side : {std::optional(getSide()), getTimes()})
    if (side)
      sides.push_back(
          NormOp::create(builder, getLoc(), norms, NormKind::L2, *side));
  getNormsMutable().assign(sides);
}

LogicalResult NearestOp::verifyFused() {
  auto isMade = [](Value value, ArrayRef<Axis> axes) {
    return value && isInput(value, axes);
  };
  bool good = getNorms().size() == (getTimes() ? 2 : 1);
  for (Value list : {getSourceList(), getCentreList()})
    good &= isMade(list, {Axis::KVHeads, Axis::Kept});
  for (Value count : {getSourceCount(), getCentreCount()})
    good &= isMade(count, {Axis::KVHeads});
  for (Value norm : getNorms())
    good &= isMade(norm, {Axis::KVHeads, Axis::Past});
  if (!good)
    return emitOpError("needs the lists and counts of sources and "
                       "centres and the norms of each side as arguments "
                       "of the kernel");
  return success();
}
