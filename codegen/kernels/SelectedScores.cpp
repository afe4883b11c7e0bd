//===- SelectedScores.cpp -------------------------------------------------===//

#include "codegen/kernels/SelectedScores.h"

using namespace mlir;
using namespace kvc;

Expr Selection::contains(Expr key, Expr item) const {
  return key.above(threshold) |
         ((key == threshold) & (item.toI32() <= lastTie));
}

/// Keys of the infinities: below and above these are those of NaN.
static constexpr int64_t leastKey = 0x007fffff, mostKey = 0xff800000;

/// The least score whose key is `key` or above.
static Expr scoreFrom(KernelBuilder &k, Expr key) {
  Expr least = k.i32(leastKey);
  return scoreBits(k, least.above(key).select(least, key)).asFloat();
}

/// The least score whose key is above `key`. Behind that of an infinity there is none.
static Expr scoreBehind(KernelBuilder &k, Expr key) {
  Expr none = key.above(k.i32(int32_t(mostKey - 1)));
  return none.select(k.f32(std::nan("")), scoreFrom(k, key + 1));
}

SelectedScores::SelectedScores(KernelBuilder &k, const Selection &selection)
    : first(scoreBehind(k, selection.threshold)),
      ties(scoreFrom(k, selection.threshold)),
      any(k.i32(leastKey).above(selection.threshold)),
      lastTie(selection.lastTie) {}

Expr SelectedScores::contains(Expr score, Expr item) const {
  return (score >= first) |
         ((item.toI32() <= lastTie) & ((score >= ties) | any));
}

Expr kvc::scoreBits(KernelBuilder &k, Expr key) {
  return (key < 0).select(key ^ k.i32(INT32_MIN), key ^ k.i32(-1));
}

Expr kvc::orderedKey(KernelBuilder &k, Expr score) {
  // Adding +0 turns -0 into +0 and changes nothing else.
  Expr bits = (score + k.f32(0)).bits();
  Expr key = bits ^ (bits < 0).select(k.i32(-1), k.i32(INT32_MIN));
  return score.isNaN().select(k.i32(0), key);
}
