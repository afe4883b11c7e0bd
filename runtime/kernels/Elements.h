//===- Elements.h - the element types of C++ kernels -----------------------===//
//
// float, F16 and BF16. Arithmetic is in fp32. Freestanding: no standard library
// where the target is NVPTX.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ELEMENTS_H
#define KVC_RUNTIME_KERNELS_ELEMENTS_H

#include <stdint.h>

#ifndef __NVPTX__
#include "runtime/base/Half.h"
#endif

namespace kvc::gpu {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

template <typename A, typename B> constexpr bool isSame = false;
template <typename A> constexpr bool isSame<A, A> = true;

template <bool first, typename A, typename B> struct Either {
  using Type = A;
};
template <typename A, typename B> struct Either<false, A, B> {
  using Type = B;
};
template <bool first, typename A, typename B>
using Conditional = typename Either<first, A, B>::Type;

inline float widen(float x) { return x; }
template <typename E> E narrow(float x);
template <> inline float narrow<float>(float x) { return x; }

#ifdef __NVPTX__
inline float widen(F16 x) { return float(__builtin_bit_cast(_Float16, x)); }
inline float widen(BF16 x) {
  return __builtin_bit_cast(float, uint32_t(x.bits) << 16);
}
template <> inline F16 narrow<F16>(float x) {
  return __builtin_bit_cast(F16, _Float16(x));
}
template <> inline BF16 narrow<BF16>(float x) {
  return __builtin_bit_cast(BF16, __bf16(x));
}
#else
inline float widen(F16 x) { return rt::fromF16(x.bits); }
inline float widen(BF16 x) { return rt::fromBF16(x.bits); }
template <> inline F16 narrow<F16>(float x) { return {rt::toF16(x)}; }
template <> inline BF16 narrow<BF16>(float x) { return {rt::toBF16(x)}; }
#endif

/// Two elements in one register, the first in its low half.
template <typename E> uint32_t pack(E low, E high) {
  return uint32_t(low.bits) | uint32_t(high.bits) << 16;
}
template <typename E> uint32_t narrowPair(float low, float high) {
#ifdef __NVPTX__
  uint32_t two;
  if constexpr (isSame<E, BF16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
#else
  return pack(narrow<E>(low), narrow<E>(high));
#endif
}

/// Eight neighbours, moved 16 bytes at a time.
template <typename E> struct alignas(16) Eight {
  E at[8];
};

/// What lies in device memory, also where the compiler cannot see that it does.
template <typename T> T loaded(const T *from) {
#ifdef __NVPTX__
  if constexpr (sizeof(T) == 2)
    return __builtin_bit_cast(
        T, *(__attribute__((address_space(1))) const uint16_t *)from);
  else
    return __builtin_bit_cast(
        T, *(__attribute__((address_space(1))) const uint32_t *)from);
#else
  return *from;
#endif
}

template <typename T> void store(T *to, T value) {
#ifdef __NVPTX__
  if constexpr (sizeof(T) == 2)
    *(__attribute__((address_space(1))) uint16_t *)to =
        __builtin_bit_cast(uint16_t, value);
  else
    *(__attribute__((address_space(1))) uint32_t *)to =
        __builtin_bit_cast(uint32_t, value);
#else
  *to = value;
#endif
}

/// Neighbours; at once where they lie so.
template <typename T> void storeTwo(T *to, T first, T second) {
#ifdef __NVPTX__
  if constexpr (sizeof(T) == 2)
    if (uintptr_t(to) % 4 == 0) {
      *(__attribute__((address_space(1))) uint32_t *)to =
          uint32_t(__builtin_bit_cast(uint16_t, first)) |
          uint32_t(__builtin_bit_cast(uint16_t, second)) << 16;
      return;
    }
#endif
  store(to, first);
  store(to + 1, second);
}

/// Element i of a row of `width`; zero behind its end.
template <typename E> E loadOne(const E *row, uint32_t i, uint32_t width) {
  if (i < width)
    return loaded(row + i);
  return {};
}

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ELEMENTS_H
