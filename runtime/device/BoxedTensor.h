//===- BoxedTensor.h - a tensor that the bulk copy engine reads -----------===//

#ifndef KVC_RUNTIME_DEVICE_BOXEDTENSOR_H
#define KVC_RUNTIME_DEVICE_BOXEDTENSOR_H

#include <array>
#include <cstdint>

namespace kvc::rt {

/// Of 16-bit elements, at a multiple of 16 bytes, of which boxes are copied to a block's
/// memory: rows of 128 bytes one behind the other, whose pieces of 16 are swapped as wgmma
/// reads them (128-byte swizzle). Dimensions are the innermost first, whose elements lie side
/// by side.
struct BoxedTensor {
  static constexpr uint32_t columns = 64, rowBytes = columns * 2; // of a box
  static constexpr uint64_t endOfStrides = 1ull << 40;

  void *data;
  std::array<uint32_t, 4> extents;
  std::array<uint64_t, 3> strides; // bytes, multiples of 16 below endOfStrides
  uint32_t rows;                   // of a box, up to 256
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_DEVICE_BOXEDTENSOR_H
