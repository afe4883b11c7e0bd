//===- Allocation.cpp - shares of a budget, exact -------------------------===//

#include "codegen/kernels/Allocation.h"

using namespace mlir;
using namespace kvc;

Expr kvc::allocateLayers(KernelBuilder &k, const SequenceScalars &s,
                         AllocateLayersOp op) {
  auto [numerator, denominator] =
      op.getRatio().getDefiningOp<FractionOp>().getRatio();
  Expr share = s.budget - s.window, layer = k.arg("layer");
  Expr steps = k.arg("layers") - 1;
  // Ends of the line, times the ratio's numerator: whole numbers.
  Expr twice = share * (2 * numerator);
  Expr most = s.past * numerator;
  Expr high = (twice - share * denominator).min(most);
  Expr low = twice - high;
  // A layer's share is value / unit.
  Expr unit = (steps * numerator).max(k.index(1));
  auto value = [&](Expr l) { return high * steps + (low - high) * l; };
  Expr own = value(layer), remainder = own % unit;
  // Floors of all layers, and how many layers come before this one when what is
  // left is handed out: larger remainder first, then the smaller layer.
  auto sums =
      k.loop(k.lane(), k.arg("layers"), warpSize, {k.i32(0), k.i32(0)},
             [&](Expr l, ArrayRef<Expr> carried) {
               Expr other = value(l), rest = other % unit;
               Expr before =
                   rest.above(remainder) | ((rest == remainder) & (l < layer));
               return KernelBuilder::Values{carried[0] + (other / unit).toI32(),
                                            carried[1] + before.toI32()};
             });
  Expr floors = k.sumOfLanes(sums[0]), rank = k.sumOfLanes(sums[1]);
  Expr left = (share * k.arg("layers")).toI32() - floors;
  Expr result = (own / unit).toI32() + (rank < left).toI32();
  return (steps == 0).select(share.toI32(), result);
}
