//===- Types.h - PTX's types as types of C++ ------------------------------===//

#ifndef KVC_PTX_TYPES_H
#define KVC_PTX_TYPES_H

#include "runtime/base/Half.h"

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace kvc::ptx {

/// A type of 16 bits, computed with as the fp32 number that it is.
template <float (*widen)(uint16_t), uint16_t (*narrow)(float)> struct Half {
  Half() = default;
  Half(float value) : value(value) {}
  operator float() const { return value; }
  static Half fromBits(uint64_t bits) { return widen(uint16_t(bits)); }
  uint64_t bits() const { return value != value ? 0x7fff : narrow(value); }
  float value = 0;
};
using F16 = Half<kvc::rt::fromF16, kvc::rt::toF16>;
using BF16 = Half<kvc::rt::fromBF16, kvc::rt::toBF16>;
template <typename T>
constexpr bool isHalf = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;
template <typename T>
constexpr bool isFloat = std::is_same_v<T, float> || isHalf<T>;

template <typename T> T valueOf(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(uint32_t(bits));
  else if constexpr (isHalf<T>)
    return T::fromBits(bits);
  else if constexpr (std::is_same_v<T, bool>)
    return bits & 1;
  else
    return T(bits);
}

/// Integers are extended to 64 bits as their type says, which a wider register
/// than the instruction's type wants.
template <typename T> uint64_t bitsOf(T value) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(value);
  else if constexpr (isHalf<T>)
    return value.bits();
  else if constexpr (std::is_signed_v<T>)
    return uint64_t(int64_t(value));
  else
    return uint64_t(value);
}

/// Calls body(T()) with the type of a name and returns what it returns; an empty
/// result where the name is none of an integer's.
template <typename Result, typename Function>
Result withInteger(std::string_view name, Function body) {
  if (name == "s16")
    return body(int16_t());
  if (name == "u16" || name == "b16")
    return body(uint16_t());
  if (name == "s32")
    return body(int32_t());
  if (name == "u32" || name == "b32")
    return body(uint32_t());
  if (name == "s64")
    return body(int64_t());
  if (name == "u64" || name == "b64")
    return body(uint64_t());
  return Result();
}

/// Most sizes are powers of two, and a division takes as long as the access itself.
constexpr bool isMultiple(uint64_t address, uint32_t size) {
  return size & (size - 1) ? address % size == 0 : !(address & (size - 1));
}

/// Bytes of "b8" to "b64", 0 for other names.
inline uint32_t bytesOf(std::string_view name) {
  if (name.size() < 2 || name == "bf16")
    return name == "bf16" ? 2 : 0;
  std::string_view digits = name.substr(1);
  if (std::string_view("bsuf").find(name[0]) == std::string_view::npos)
    return 0;
  return digits == "8"    ? 1
         : digits == "16" ? 2
         : digits == "32" ? 4
         : digits == "64" ? 8
                          : 0;
}

} // namespace kvc::ptx

#endif // KVC_PTX_TYPES_H
