//===- Mma.h - the matrix instruction, from the registers of threads ------===//

#ifndef KVC_EMULATOR_MMA_H
#define KVC_EMULATOR_MMA_H

#include <cstdint>

namespace kvc::rt {

/// Fragments of the 32 lanes of a warp, in the layout of m16n8k16: per step
/// four registers of `a` and two of `b`; `c` has four floats per lane and is
/// updated. Products are exact, sums are fp32 in ascending k, each rounded once.
void warpMma(const uint32_t *const a[32], const uint32_t *const b[32],
             float *const c[32], uint32_t steps, bool bf16);

} // namespace kvc::rt

#endif // KVC_EMULATOR_MMA_H
