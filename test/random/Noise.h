//===- Noise.h - what rounding may do to a policy -------------------------===//
//
// Monte Carlo arithmetic: the reference is run with every float that an op
// rounds moved by a few units of fp32, in proportion to what the op sums up.
// The noise is a hash of the op and of the number itself, so that exact ties
// stay exact ties, and numbers of few bits, which fp32 holds exactly, stay as
// they are.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_RANDOM_NOISE_H
#define KVC_TEST_RANDOM_NOISE_H

#include "dialect/reference/Interpreter.h"

namespace kvc::random {

class Noise {
public:
  /// `amplitude` 0: only the range of fp32.
  Noise(PolicyOp policy, const reference::Layer &layer, uint64_t seed,
        double amplitude);

  /// As reference::Watch.
  void operator()(mlir::Operation *op,
                  llvm::ArrayRef<const reference::Tensor *> operands,
                  reference::Tensor &result) const;

  /// A weight of row `head * queries + query`, in front of rounding to the
  /// model's type.
  double movedWeight(double weight, int64_t row) const;
  /// A channel of a member's key, in front of the same.
  double movedKey(double x) const;

private:
  const reference::Layer &layer;
  uint64_t seed;
  /// Every fourth run shows what rounding alone does: most numbers are off by
  /// nothing or by one unit of the last place, and many become equal.
  bool fine;
  double amplitude;
  /// Of a weight, in units of the amplitude.
  double attentionError;
  llvm::DenseMap<mlir::Operation *, uint64_t> numbers;

  double draw(uint64_t op, double value, uint64_t salt) const;
  void moveSum(mlir::Operation *op, const reference::Tensor &operand,
               llvm::ArrayRef<const reference::Tensor *> operands,
               reference::Tensor &result) const;
  /// Of a logit: what its row's log-sum-exp is off by, and its own.
  double logitNoise(uint64_t op, double value, int64_t row) const;
  static double attentionErrorOf(const reference::Layer &layer);
};

/// The default: a few units of the last place.
inline constexpr double fewUnits = 1.0 / (1 << 22);

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_NOISE_H
