//===- CountRanges.cpp - how large a count can be -------------------------===//

#include "codegen/kernels/CountRanges.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace kvc;

std::optional<CountRange> CountRanges::of(Value value) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  std::optional<CountRange> range = compute(value);
  Type type = getElementTypeOrSelf(value.getType());
  unsigned most = type.isIndex() ? 63 : type.isInteger(32) ? 31 : 0;
  if (range && range->bits > most)
    range = std::nullopt;
  known[value] = range;
  return range;
}

std::optional<CountRange> CountRanges::compute(Value value) {
  Operation *op = value.getDefiningOp(); // null: of another kernel
  if (isa_and_nonnull<BudgetOp, LengthOp, NewQueriesOp, SinceOp, LayerOp,
                      LayersOp, AllocateOp, AllocateLayersOp, AllocateHeadsOp,
                      AllocateTableOp, CountMassOp, CountRowsOp>(op))
    return CountRange{31};
  if (isa_and_nonnull<arith::ConstantOp>(op)) {
    int64_t number = constantOf(value);
    auto size = number < 0 ? ~uint64_t(number) + 1 : uint64_t(number);
    return CountRange{unsigned(llvm::bit_width(size)), number < 0};
  }
  if (auto scale = dyn_cast_or_null<ScaleCountOp>(op)) {
    // What is below 0 counts as 0. It is multiplied first.
    auto [numerator, denominator] = scale.getFactor();
    std::optional<CountRange> count = of(scale.getCount());
    unsigned bits = count ? count->bits : 63;
    if (bits + llvm::bit_width(uint64_t(numerator)) > 63)
      return std::nullopt;
    return CountRange{
        bits + unsigned(llvm::bit_width(uint64_t(numerator / denominator)))};
  }
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp,
                       arith::DivUIOp, arith::CeilDivUIOp, arith::RemUIOp,
                       arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp,
                       arith::MaxUIOp, arith::IndexCastOp, BroadcastOp>(op))
    return std::nullopt;
  SmallVector<CountRange, 2> each;
  for (Value operand : op->getOperands()) {
    std::optional<CountRange> range = of(operand);
    if (!range)
      return std::nullopt;
    each.push_back(*range);
  }
  CountRange a = each.front(), b = each.back();
  unsigned larger = std::max(a.bits, b.bits);
  bool signs = a.signs || b.signs;
  if (isa<arith::AddIOp>(op))
    return CountRange{larger + 1, signs};
  if (isa<arith::SubIOp>(op))
    return CountRange{signs ? larger + 1 : larger, true};
  if (isa<arith::MulIOp>(op))
    return CountRange{a.bits + b.bits, signs};
  if (isa<arith::MinSIOp>(op) || (isa<arith::MinUIOp>(op) && !signs))
    return CountRange{signs ? larger : std::min(a.bits, b.bits), signs};
  if (isa<arith::MaxUIOp>(op) && !signs)
    return CountRange{larger};
  if (isa<arith::MaxSIOp>(op))
    return CountRange{larger, a.signs && b.signs};
  if (isa<arith::IndexCastOp, BroadcastOp>(op))
    return a;
  // Of numbers without a sign: a quotient or a remainder.
  return signs ? std::optional<CountRange>() : a;
}
