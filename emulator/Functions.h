//===- Functions.h - functions that a GPU has an instruction for -----------===//

#ifndef KVC_EMULATOR_FUNCTIONS_H
#define KVC_EMULATOR_FUNCTIONS_H

#include <cmath>
#include <limits>

namespace kvc::rt {

/// As a GPU has it: no numbers below the smallest normal one.
inline float exp2OfGPU(float x) {
  float y = std::exp2(x);
  return y < std::numeric_limits<float>::min() ? 0 : y;
}

inline float log2OfGPU(float x) { return std::log2(x); }

} // namespace kvc::rt

#endif // KVC_EMULATOR_FUNCTIONS_H
