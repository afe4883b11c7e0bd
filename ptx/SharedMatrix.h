//===- SharedMatrix.h - a matrix in shared memory, by its descriptor ------===//
//
// The 64 bits that wgmma takes for an operand (PTX ISA, "Matrix Descriptor Format"), and
// the canonical layouts that they name. Elements have 16 bits. Bytes go in rows of 16, 32,
// 64 or 128, eight rows are a pattern, and chunks of 16 bytes are swapped within their
// row by the row's number in its pattern, which is in the address.
//
//   major  swizzle  along M or N                       along K
//   K      none     16 a row, stride after 8           leading after 8
//   K      some     a row, stride after 8              2
//   MN     none     2, stride after 8                  16 a row, leading after 8
//   MN     some     2, leading after a row's elements  a row, stride after 8
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_SHAREDMATRIX_H
#define KVC_PTX_SHAREDMATRIX_H

#include "ptx/SharedMemory.h"

namespace kvc::ptx {

/// Where a byte of a pattern goes whose rows have `row` bytes: address bits 4 to 6, as far as
/// they number a row's chunks, with bits 7 to 9. Patterns are bound to addresses.
constexpr uint32_t swizzled(uint32_t address, uint32_t row) {
  return address ^ (address >> 3 & (row - 16));
}

/// Along what its elements lie side by side.
enum class Major { K, MN };

class SharedMatrix {
public:
  static constexpr uint32_t depth = 16; // elements along K

  /// Of `extent` elements along M or N. Throws Failure where the descriptor is none, or
  /// one of a matrix that begins amid its pattern.
  SharedMatrix(uint64_t descriptor, Major major, uint32_t extent);

  /// Reads `count` elements along M or N, both multiples of 8, as [count][depth].
  void read(SharedMemory &memory, uint32_t first, uint32_t count, uint16_t *to,
            Access access) const;

private:
  uint32_t addressOf(uint32_t index, uint32_t k) const;

  Major major;
  uint32_t start, leading, stride; // bytes
  uint32_t row;                    // bytes that lie in one piece
};

} // namespace kvc::ptx

#endif // KVC_PTX_SHAREDMATRIX_H
