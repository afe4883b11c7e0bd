//===- Half.h - f16 and bf16 to f32 and back ------------------------------===//

#ifndef KVC_RUNTIME_BASE_HALF_H
#define KVC_RUNTIME_BASE_HALF_H

#include <bit>
#include <cstdint>

namespace kvc::rt {

inline float fromBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// To nearest even; NaN stays NaN.
inline uint16_t toBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value)
    return uint16_t(bits >> 16) | 0x40;
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float fromF16(uint16_t bits) {
  uint32_t magnitude = uint32_t(bits & 0x7fff) << 13;
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  if (magnitude >= 0x7c00u << 13)
    return std::bit_cast<float>(magnitude | 0x7f800000u | sign);
  // The multiplication restores the bias and makes subnormals right.
  float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

/// To nearest even; overflow becomes infinity, NaN stays NaN.
inline uint16_t toF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = uint16_t((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000u)
    return sign | 0x7e00;
  if (magnitude >= 0x477ff000u)
    return sign | 0x7c00;
  if (magnitude < 113u << 23) {
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | uint16_t(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23);
  return sign | uint16_t(rounded >> 13);
}

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_HALF_H
