//===- Functions.cpp ------------------------------------------------------===//

#include "emulator/Functions.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

using namespace kvc::rt;

/// A product and a sum are one rounding, by an instruction where there is one.
[[gnu::always_inline]] static inline float powerOfTwo(float x) {
  if (x < -126.0f)
    return 0;
  if (!(x < 128.0f))
    return x != x ? x : std::numeric_limits<float>::infinity();
  // x = n + f, n whole and |f| at most a half: the sum's last bits are n.
  constexpr float magic = 12582912.0f; // 1.5 * 2^23
  float shifted = x + magic, f = x - (shifted - magic);
  // 2^f is 1 + f * q(f), q by interpolation at Chebyshev's points.
  float p = 0.00015453163359779865f;
  for (float c :
       {0.0013390863314270973f, 0.009618083015084267f, 0.055503569543361664f,
        0.24022650718688965f, 0.6931471824645996f, 1.0f})
    p = __builtin_fmaf(p, f, c);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) +
                              (std::bit_cast<uint32_t>(shifted) << 23));
}

#if defined(__x86_64__)
[[gnu::target("fma")]] static float powerOfTwoFused(float x) {
  return powerOfTwo(x);
}
#endif

float kvc::rt::exp2OfGPU(float x) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma"))
    return powerOfTwoFused(x);
#endif
  return powerOfTwo(x);
}

float kvc::rt::log2OfGPU(float x) { return std::log2(x); }
