//===- MeasureCard.h - kvc-run measure-card -------------------------------===//
//
// The constants that the cost model rests on (docs/cost-model.md), measured on the GPU
// that is there.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_COST_MEASURECARD_H
#define KVC_EXECUTOR_COST_MEASURECARD_H

#include <string>

namespace kvc::rt {

struct CardMeasureOptions {
  bool small = false; // less of everything: shows that it runs
  std::string json;   // a file for the numbers; empty: none
};

/// Prints one line a constant. Throws Failure.
void measureCard(const CardMeasureOptions &options);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_MEASURECARD_H
