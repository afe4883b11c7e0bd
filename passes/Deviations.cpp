//===- Deviations.cpp - standard deviations over tokens, by parts ---------===//
//
// A deviation does not fold, so a rows kernel would read all numbers of a head in one
// block. Where a columns kernel makes them, it has the parts as well, and whoever asks for
// the deviation combines them: a launch less. Numbers of other kernels stay with a rows
// kernel: parts of them would be another launch.
//
//===----------------------------------------------------------------------===//

#include "passes/Deviations.h"

using namespace mlir;
using namespace kvc;

bool kvc::splitDeviations(PolicyOp policy, const Stages &stages) {
  SmallVector<ReduceOp> deviations;
  for (auto reduce : policy.getBody().front().getOps<ReduceOp>())
    if (reduce.getAxis() == ReduceAxis::Tokens &&
        reduce.getKind() == ReduceKind::Std &&
        axesOf(reduce.getValue().getType()).size() == 2 &&
        headsOf(reduce.getValue().getType()) != Axis::OneHead &&
        stages.canHaveDeviation(reduce.getValue()))
      deviations.push_back(reduce);
  for (ReduceOp reduce : deviations) {
    OpBuilder builder(reduce);
    auto bare = RankedTensorType::get({1}, builder.getF32Type());
    Type type = withAxes(
        bare, {headsOf(reduce.getValue().getType()), Axis::Split, Axis::Pair},
        0);
    auto parts = DeviationPartOp::create(builder, reduce.getLoc(), type, type,
                                         type, reduce.getValue());
    Value combined = CombineDeviationsOp::create(
        builder, reduce.getLoc(), reduce.getType(), parts.getCount(),
        parts.getMean(), parts.getSquares());
    reduce.getResult().replaceAllUsesWith(combined);
    reduce.erase();
  }
  return !deviations.empty();
}
