//===- FirstDigit.cpp - the bins that a selection counts scores in --------===//

#include "codegen/kernels/FirstDigit.h"

#include "codegen/kernels/SelectedScores.h"

using namespace mlir;
using namespace kvc;

/// A step has the keys of a sixteenth of an octave, a coarse bin those of two octaves.
static constexpr int64_t stepBits = 23 - 4, coarseBits = 23 + 1;
static constexpr int64_t stepsOfCoarse = 1 << (coarseBits - stepBits);

/// Steps from `first` on, `count` of them, of which each has a bin.
struct Fine {
  int64_t first, count;
};
/// The first step of the octave from 2^exponent on; of negative scores behind that
/// down to it.
static constexpr int64_t stepOf(int exponent) {
  return (int64_t(1) << (keyBits - 1 - stepBits)) + (exponent + 127) * 16;
}
static constexpr int64_t mirrored(int64_t step) {
  return (int64_t(1) << (keyBits - stepBits)) - step;
}
static constexpr Fine negative{mirrored(stepOf(15)), stepOf(15) - stepOf(-33)};
static constexpr Fine positive{stepOf(-49), stepOf(15) - stepOf(-49)};

static constexpr bool hasWholeCoarseBins(Fine fine) {
  return fine.first % stepsOfCoarse == 0 && fine.count % stepsOfCoarse == 0;
}
static_assert(hasWholeCoarseBins(negative) && hasWholeCoarseBins(positive));
static_assert(negative.count + positive.count + (1 << (keyBits - coarseBits)) <=
              digitBins);

/// Each step adds one where it is fine, and each coarse bin adds one.
Expr kvc::firstDigit(Expr key) {
  Expr step = key >> stepBits, digit = key >> coarseBits;
  for (Fine fine : {negative, positive})
    digit = digit + (step - fine.first)
                        .max(step.same(0))
                        .min(step.same(double(fine.count)));
  return digit;
}

KeyRange kvc::keysOfFirstDigit(KernelBuilder &k, Expr digit) {
  Expr prefix = digit, rest = k.i32(coarseBits);
  // What fine steps in front have added is taken off again.
  int64_t before = 0;
  for (Fine fine : {negative, positive}) {
    int64_t first = before + fine.first / stepsOfCoarse;
    int64_t bins = fine.count + fine.count / stepsOfCoarse;
    Expr in = digit - first;
    // Every coarse bin has passed one number over.
    Expr step = in - in / (stepsOfCoarse + 1) + fine.first;
    Expr isFine = (in >= 0) & (in < bins);
    before += fine.count;
    prefix = (in >= 0).select(digit - before, prefix);
    prefix = isFine.select(step, prefix);
    rest = isFine.select(k.i32(stepBits), rest);
  }
  return {prefix, rest};
}
