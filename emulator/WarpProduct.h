//===- WarpProduct.h - the matrix instruction, from vectors of lanes ------===//

#ifndef KVC_EMULATOR_WARPPRODUCT_H
#define KVC_EMULATOR_WARPPRODUCT_H

#include <cstdint>

namespace kvc::rt {

// What warpMma computes, bit for bit, in pieces: an operand is widened once, however many
// products it is of. Register r of lane l of a fragment is at [r * 32 + l].

/// `left` [16 * steps][16]: a row of each k.
void widenLeft(const uint32_t *a, float *left, uint32_t steps, uint32_t bf16);
/// `right` [8][16 * steps]: a column in one piece.
void widenRight(const uint32_t *b, float *right, uint32_t steps, uint32_t bf16);
/// c += left * right; where `fresh`, c = left * right.
void multiplyWide(const float *left, const float *right, float *c,
                  uint32_t steps, uint32_t fresh);

} // namespace kvc::rt

#endif // KVC_EMULATOR_WARPPRODUCT_H
