//===- KVCNeeds.cpp - what each op needs ----------------------------------===//

#include "dialect/Behind.h"
#include "dialect/KVCDialect.h"

using namespace mlir;
using namespace kvc;

Needs kvc::needsOf(Operation *op) {
  auto known = dyn_cast_or_null<NeedsOpInterface>(op);
  return known ? known.getNeeds() : Needs();
}

bool kvc::isAddedTo(Value value) {
  auto result = dyn_cast<OpResult>(value);
  return result &&
         result.getResultNumber() < needsOf(result.getOwner()).accumulates;
}

static EngineInput inputOf(CacheSide side) {
  switch (side) {
  case CacheSide::Key:
    return EngineInput::Keys;
  case CacheSide::Value:
    return EngineInput::Values;
  case CacheSide::RawKey:
    return EngineInput::RawKeys;
  }
  llvm_unreachable("all sides are listed");
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Needs ParamOp::getNeeds() { return {}; }
Needs FractionOp::getNeeds() { return {}; }
Needs BudgetOp::getNeeds() { return {}; }
Needs LengthOp::getNeeds() { return {}; }
Needs NewQueriesOp::getNeeds() { return {.inputs = {EngineInput::NewQueries}}; }
Needs SinceOp::getNeeds() { return {.inputs = {EngineInput::Since}}; }
Needs LayerOp::getNeeds() { return {.inputs = {EngineInput::Layer}}; }
Needs LayersOp::getNeeds() { return {.inputs = {EngineInput::Layer}}; }

//===----------------------------------------------------------------------===//
// From the cache to scores
//===----------------------------------------------------------------------===//

Needs AttentionOp::getNeeds() {
  Needs needs{.kernel = KernelKind::Columns,
              .inputs = {EngineInput::Queries, EngineInput::Keys},
              .queries = readsAll() || readsNew() ? ShapedType::kDynamic
                                                  : constantOf(getLast())};
  if (getMembers())
    needs.inputs.push_back(EngineInput::Members);
  if (!getLogits())
    needs.prepared = Prepared::LogSumExp;
  return needs;
}

Needs NormOp::getNeeds() {
  return {.kernel = KernelKind::Columns,
          .inputs = {inputOf(getSide())},
          .walksChannels = true};
}

Needs VectorsOp::getNeeds() { return {.inputs = {inputOf(getSide())}}; }

/// True for what rows carry: it is made of every row, whatever is ranked.
static bool isCarried(Operation *op) {
  if (auto kernel = op->getParentOfType<KernelOp>())
    return kernel.getEveryRow();
  auto keep = dyn_cast<KeepOp>(op->getBlock()->back());
  bool found = false;
  if (keep)
    for (Value carried : keep.getCarried())
      walkBehind(carried, [&](Value value) {
        found |= value.getDefiningOp() == op;
        return !found;
      });
  return found;
}

bool ProjectedNormOp::isListed() {
  return getWhere() && !axesOf(getWhere().getType()).empty() &&
         headsOf(getWhere().getType()) != Axis::QueryHeads && !isCarried(*this);
}

Needs ProjectedNormOp::getNeeds() {
  if (isListed())
    return {.kernel = KernelKind::Norms,
            .inputs = {EngineInput::Values, EngineInput::OutputProjection},
            .otherBlocks = true,
            .writesResults = true};
  Needs needs{.kernel = KernelKind::Columns,
              .inputs = {EngineInput::Values},
              .late = true,
              .costly = true};
  // A bound reads the weights' quadratic form instead of the weights.
  if (getBound())
    needs.prepared = Prepared::Gram;
  else
    needs.inputs.push_back(EngineInput::OutputProjection);
  return needs;
}

Needs PositionOp::getNeeds() { return {}; }

Needs KeptLayersOp::getNeeds() {
  return {.inputs = {EngineInput::Layer, EngineInput::State}};
}

Needs RowStateOp::getNeeds() { return {.inputs = {EngineInput::RowState}}; }

Needs FillOp::getNeeds() { return {}; }
Needs BroadcastOp::getNeeds() { return {}; }

//===----------------------------------------------------------------------===//
// From scores to scores
//===----------------------------------------------------------------------===//

Needs ReduceOp::getNeeds() {
  switch (getAxis()) {
  case ReduceAxis::Queries:
    return {.kernel = KernelKind::Columns, .late = true};
  case ReduceAxis::Channels:
    return {.kernel = KernelKind::Columns, .walksChannels = true};
  case ReduceAxis::Group:
    return {};
  case ReduceAxis::Heads:
    return {.otherHeads = true, .late = true};
  case ReduceAxis::Tokens:
    return {.kernel = KernelKind::Rows,
            .writesResults = cast<RankedTensorType>(getType()).getRank() > 1};
  case ReduceAxis::Members:
    return {.kernel = KernelKind::Columns, .inputs = {EngineInput::Members}};
  }
  llvm_unreachable("all axes are listed");
}

Needs PoolOp::getNeeds() {
  // Attention rows are pooled where they are computed.
  if (cast<RankedTensorType>(getType()).getRank() == 3)
    return {.otherTokens = true};
  return {.kernel = KernelKind::Spans, .otherTokens = true};
}

Needs SegmentOp::getNeeds() {
  Needs needs{.kernel = KernelKind::Segments,
              .cut = Cut{getLength(), getFrom(), getNext()}};
  bool stored = cast<RankedTensorType>(getType()).getRank() == 2;
  if (stored && !getNext())
    needs.rows = {&getValueMutable()};
  return needs;
}

//===----------------------------------------------------------------------===//
// From scores to the kept set
//===----------------------------------------------------------------------===//

Needs AllocateOp::getNeeds() { return {}; }
Needs AllocateLayersOp::getNeeds() { return {.inputs = {EngineInput::Layer}}; }

Needs AllocateHeadsOp::getNeeds() {
  return {.kernel = KernelKind::Sequence,
          .otherBlocks = true,
          .writesResults = true};
}

Needs AllocateTableOp::getNeeds() {
  return {.kernel = KernelKind::Sequence,
          .inputs = {EngineInput::Table, EngineInput::Layer},
          .otherBlocks = true,
          .writesResults = true};
}

Needs CountMassOp::getNeeds() {
  return {.kernel = KernelKind::Rows, .rows = {&getScoreMutable()}};
}

Needs ScaleCountOp::getNeeds() { return {}; }
Needs CountRowsOp::getNeeds() { return {}; }

Needs SelectHeadsOp::getNeeds() {
  return {.kernel = KernelKind::Spans, .otherBlocks = true, .asksHeads = true};
}

Needs TopkOp::getNeeds() {
  return {.kernel = KernelKind::Spans,
          .rows = {&getScoreMutable()},
          .otherBlocks = true,
          .ranks = true};
}

Needs NearestOp::getNeeds() {
  Needs needs{.kernel = KernelKind::Nearest,
              .inputs = {inputOf(getSide())},
              .otherBlocks = true,
              .writesResults = true};
  if (std::optional<CacheSide> second = getTimes())
    needs.inputs.push_back(inputOf(*second));
  return needs;
}

Needs KeepOp::getNeeds() {
  // A table of members is made by one block, behind the list.
  return {.kernel = getDestination() ? KernelKind::Rows : KernelKind::Spans};
}

//===----------------------------------------------------------------------===//
// Level fused
//===----------------------------------------------------------------------===//

Needs RowStatisticsOp::getNeeds() {
  return {.kernel = KernelKind::Statistics,
          .inputs = {EngineInput::Queries, EngineInput::Keys}};
}

Needs RowLogSumExpOp::getNeeds() {
  return {.kernel = KernelKind::Statistics,
          .inputs = {EngineInput::Queries, EngineInput::Keys}};
}

Needs CombineStatisticsOp::getNeeds() {
  return {.kernel = KernelKind::Combine};
}

static bool isOfVectors(Value parts) {
  return axesOf(parts.getType()).back() == Axis::Channel;
}

static Needs partOfNumbers() {
  return {
      .kernel = KernelKind::Spans, .joinsColumns = true, .writesResults = true};
}

Needs ReducePartOp::getNeeds() {
  if (isOfVectors(getResult()))
    return {.kernel = KernelKind::Parts};
  return partOfNumbers();
}

Needs ExpSumPartOp::getNeeds() { return partOfNumbers(); }

Needs CombineExpSumsOp::getNeeds() {
  return {.kernel = KernelKind::Spans, .otherBlocks = true};
}

Needs DeviationPartOp::getNeeds() {
  return {
      .kernel = KernelKind::Columns, .tokensOnce = true, .writesResults = true};
}

Needs CombineDeviationsOp::getNeeds() {
  return {.kernel = KernelKind::Spans, .otherBlocks = true, .ofAnyHead = true};
}

Needs CombinePartsOp::getNeeds() {
  if (isOfVectors(getParts()))
    return {.kernel = KernelKind::Rows, .writesResults = true};
  return {.kernel = KernelKind::Spans, .otherBlocks = true};
}

Needs GramOp::getNeeds() {
  return {.kernel = KernelKind::Gram,
          .inputs = {EngineInput::OutputProjection},
          .inModelType = 1};
}

Needs MemberKeysOp::getNeeds() {
  return {.kernel = KernelKind::Keys,
          .inputs = {EngineInput::RawKeys, EngineInput::Members,
                     EngineInput::Angles},
          .inModelType = 1};
}

Needs StoreOp::getNeeds() { return {}; }

Needs CountDigitsOp::getNeeds() {
  return {.kernel = KernelKind::Spans, .accumulates = 1, .writesResults = true};
}

Needs KeyPrefixOp::getNeeds() { return {.kernel = KernelKind::Spans}; }

Needs ListCandidatesOp::getNeeds() {
  return {.kernel = KernelKind::Spans,
          .otherBlocks = true,
          .accumulates = 3,
          .writesResults = true};
}

Needs ListOp::getNeeds() {
  return {.kernel = KernelKind::Spans, .writesResults = true};
}

Needs ListKeptOp::getNeeds() {
  bool merges =
      llvm::any_of(getMask().getUsers(), llvm::IsaPred<ListMembersOp>);
  return {.kernel = merges ? KernelKind::Rows : KernelKind::Spans,
          .writesResults = true};
}

Needs ListMembersOp::getNeeds() {
  return {.kernel = KernelKind::Rows, .writesResults = true};
}

Needs MergeOp::getNeeds() {
  return {.kernel = KernelKind::Compact,
          .inputs = {EngineInput::RawKeys, EngineInput::Values}};
}

Needs CompactOp::getNeeds() {
  return {.kernel = KernelKind::Compact,
          .inputs = {EngineInput::Keys, EngineInput::Values}};
}
