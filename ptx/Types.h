//===- Types.h - PTX's types as types of C++ ------------------------------===//

#ifndef KVC_PTX_TYPES_H
#define KVC_PTX_TYPES_H

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace kvc::ptx {

template <typename T> T valueOf(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(uint32_t(bits));
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
  else if constexpr (std::is_signed_v<T>)
    return uint64_t(int64_t(value));
  else
    return uint64_t(value);
}

/// Calls body(T()) with the type of a name and returns what it returns; an empty
/// result where the name is none of an integer's.
template <typename Result, typename Body>
Result withInteger(std::string_view name, Body body) {
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
