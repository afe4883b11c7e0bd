//===- SelectedScores.h - what a threshold selects ------------------------===//

#ifndef KVC_CODEGEN_KERNELS_SELECTEDSCORES_H
#define KVC_CODEGEN_KERNELS_SELECTEDSCORES_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// Which items are selected: those whose key is above `threshold`, and those
/// with just that key up to item `lastTie`. i32 both.
struct Selection {
  Expr threshold, lastTie;
  Expr contains(Expr key, Expr item) const;
};

/// The same, asked by scores: their keys' order is that of numbers, but for NaN.
class SelectedScores {
public:
  SelectedScores() = default;
  SelectedScores(KernelBuilder &k, const Selection &selection);
  Expr contains(Expr score, Expr item) const;

private:
  /// Scores from `first` on are selected, those from `ties` on up to item `lastTie`,
  /// and so are all others where that is `any`.
  Expr first, ties, any, lastTie;
};

/// A key whose unsigned order is the order of scores: NaN lowest, -0 equal to
/// +0.
Expr orderedKey(KernelBuilder &k, Expr score);
/// The bits of the score that has a key.
Expr scoreBits(KernelBuilder &k, Expr key);
/// A key is searched digit by digit, from the highest bits on; the last one has fewer.
constexpr int64_t keyBits = 32, digitBits = 11;
static_assert(digitBins == 1 << digitBits);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_SELECTEDSCORES_H
