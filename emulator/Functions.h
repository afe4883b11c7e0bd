//===- Functions.h - functions that a GPU has an instruction for -----------===//

#ifndef KVC_EMULATOR_FUNCTIONS_H
#define KVC_EMULATOR_FUNCTIONS_H

namespace kvc::rt {

/// 2 to the x, to about one unit in the last place, and as a GPU has it: no numbers below
/// the smallest normal one. Operation by operation what codegen/lower/WarpHelpers.cpp
/// writes out for 32 lanes; both must give the same bits.
float exp2OfGPU(float x);

float log2OfGPU(float x);

} // namespace kvc::rt

#endif // KVC_EMULATOR_FUNCTIONS_H
