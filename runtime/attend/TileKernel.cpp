//===- TileKernel.cpp - some query rows against some keys, in vectors -----===//
//
// Everything below is inlined into one function for each vector unit, so that its
// vectors are that function's and nothing of them is left for a linker to mix up.
//
//===----------------------------------------------------------------------===//

#include "runtime/attend/TileKernel.h"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

using namespace kvc::rt;

#define KVC_INLINE [[gnu::always_inline]] inline

namespace {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

/// Vectors of `N` lanes. They are handed on by reference only: by value they would be
/// passed in registers that the functions in front of the inlining do not have.
template <int N> struct Vector {
  typedef float F __attribute__((vector_size(N * 4)));
  typedef uint32_t U __attribute__((vector_size(N * 4)));
  typedef int32_t I __attribute__((vector_size(N * 4)));
  typedef uint16_t H __attribute__((vector_size(N * 2)));
#ifdef __x86_64__
  typedef _Float16 Half16 __attribute__((vector_size(N * 2)));
#endif
};

template <int N>
KVC_INLINE void widen(typename Vector<N>::F &to, const float *from) {
  std::memcpy(&to, from, sizeof to);
}

template <int N>
KVC_INLINE void widen(typename Vector<N>::F &to, const BF16 *from) {
  typename Vector<N>::H half;
  std::memcpy(&half, from, sizeof half);
  auto bits = __builtin_convertvector(half, typename Vector<N>::U) << 16;
  std::memcpy(&to, &bits, sizeof to);
}

template <int N>
KVC_INLINE void widen(typename Vector<N>::F &to, const F16 *from) {
  using V = Vector<N>;
  typename V::H half;
  std::memcpy(&half, from, sizeof half);
  if constexpr (N > 4) { // there is an instruction
    typename V::Half16 value;
    std::memcpy(&value, &half, sizeof value);
    to = __builtin_convertvector(value, typename V::F);
    return;
  }
  // As fromF16 of Half.h.
  auto wide = __builtin_convertvector(half, typename V::U);
  typename V::U sign = (wide & 0x8000) << 16, magnitude = (wide & 0x7fff) << 13;
  typename V::U special = typename V::U(magnitude >= (0x7c00u << 13)), bits;
  typename V::F value;
  std::memcpy(&value, &magnitude, sizeof value);
  value = value * 0x1p112f;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (special & (magnitude | 0x7f800000u)) | (~special & bits) | sign;
  std::memcpy(&to, &bits, sizeof to);
}

/// The last elements of a row, zeros behind them: what lies there is another's.
template <int N, typename E>
KVC_INLINE void widenSome(typename Vector<N>::F &to, const E *from,
                          uint32_t count) {
  E padded[N] = {};
  std::memcpy(padded, from, count * sizeof(E));
  widen<N>(to, padded);
}

/// The sums of the lanes of four vectors: neighbours meet in pairs, then the pairs, then
/// the halves of what is left.
template <int N> class LaneSums {
  using F = typename Vector<N>::F;
  template <int... I>
  KVC_INLINE static void addNeighbours(F &to, const F &a, const F &b,
                                       std::integer_sequence<int, I...>) {
    to = __builtin_shufflevector(a, b, (I / 4 * 4 + I % 4 / 2 + I % 2 * N)...) +
         __builtin_shufflevector(a, b,
                                 (I / 4 * 4 + I % 4 / 2 + 2 + I % 2 * N)...);
  }
  template <int... I>
  KVC_INLINE static void addPairs(F &to, const F &a, const F &b,
                                  std::integer_sequence<int, I...>) {
    to = __builtin_shufflevector(a, b, (I / 4 * 4 + I % 2 + I % 4 / 2 * N)...) +
         __builtin_shufflevector(a, b,
                                 (I / 4 * 4 + I % 2 + 2 + I % 4 / 2 * N)...);
  }
  template <int Width, int... I>
  KVC_INLINE static void addHalves(float *to,
                                   const typename Vector<Width>::F &of,
                                   std::integer_sequence<int, I...>) {
    if constexpr (Width == 4) {
      std::memcpy(to, &of, sizeof of);
    } else {
      typename Vector<Width / 2>::F half =
          __builtin_shufflevector(of, of, I...) +
          __builtin_shufflevector(of, of, (I + Width / 2)...);
      addHalves<Width / 2>(to, half,
                           std::make_integer_sequence<int, Width / 4>());
    }
  }

public:
  KVC_INLINE static void store(float *to, const F &a, const F &b, const F &c,
                               const F &d) {
    constexpr auto lanes = std::make_integer_sequence<int, N>();
    F left, right;
    addNeighbours(left, a, b, lanes);
    addNeighbours(right, c, d, lanes);
    addPairs(left, left, right, lanes);
    addHalves<N>(to, left, std::make_integer_sequence<int, N / 2>());
  }
};

/// 2^x for x up to 0, below -126 at least 0; NaN stays NaN. Relative error 2e-7: the
/// polynomial is the one of least error for 2^f on [-1/2, 1/2].
template <int N> KVC_INLINE void exp2OfAtMost0(typename Vector<N>::F &x) {
  using V = Vector<N>;
  constexpr float toInteger =
      0x1.8p23f; // adding it leaves no room for a fraction
  auto under = x < -126.0f;
  typename V::F shifted = x + toInteger, f = x - (shifted - toInteger);
  typename V::F p = f * 1.535336188319500e-4f + 1.339887440266574e-3f;
  p = p * f + 9.618437357674640e-3f;
  p = p * f + 5.550332471162809e-2f;
  p = p * f + 2.402264791363012e-1f;
  p = p * f + 6.931472028550421e-1f;
  p = p * f + 1.0f;
  typename V::U bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3f800000u;
  typename V::F power;
  std::memcpy(&power, &bits, sizeof power);
  x = p * power;
  std::memcpy(&bits, &x, sizeof bits);
  bits = bits & ~typename V::U(under);
  std::memcpy(&x, &bits, sizeof x);
}

/// Adds dimensions [d, d + N) of the products of R rows and four keys, to lanes.
template <int N, int R, typename E>
KVC_INLINE void multiply(typename Vector<N>::F (&sums)[R][4],
                         const float (*queries)[KVC_MAX_HEAD_DIM],
                         const std::byte *const *keys, uint32_t d,
                         uint32_t left) {
  using F = typename Vector<N>::F;
  F key[4], query;
  for (int c = 0; c < 4; ++c) {
    auto *at = reinterpret_cast<const E *>(keys[c]) + d;
    if (left >= N)
      widen<N>(key[c], at);
    else
      widenSome<N>(key[c], at, left);
  }
  for (int r = 0; r < R; ++r) {
    std::memcpy(&query, &queries[r][d], sizeof query);
    for (int c = 0; c < 4; ++c)
      sums[r][c] += query * key[c];
  }
}

/// Four of the rows that come next, into the second cache.
KVC_INLINE void fetchAhead(const Tile &t, uint32_t first) {
  uint32_t bytes = t.dim * (t.valueType == KVC_F32 ? 4 : 2);
  for (uint32_t i = first; i < first + 4 && i < t.nextCount; ++i)
    for (uint32_t byte = 0; byte < bytes; byte += 64) {
      __builtin_prefetch(t.nextKeys[i] + byte, 0, 2);
      __builtin_prefetch(t.nextValues[i] + byte, 0, 2);
    }
}

/// Logits of R rows and all keys, four at a time; there is room for three more.
template <int N, int R, typename E>
KVC_INLINE void logitsOf(const Tile &t, uint32_t row,
                         float (*logits)[tileKeys]) {
  using F = typename Vector<N>::F;
  auto *queries = t.queries + row;
  uint32_t whole = t.dim / N * N;
  for (uint32_t i = 0; i < t.count; i += 4) {
    const std::byte *keys[4];
    for (uint32_t c = 0; c < 4;
         ++c) // the last one again, not stored where it counts
      keys[c] = t.keys[i + c < t.count ? i + c : t.count - 1];
    if (row == t.firstRow)
      fetchAhead(t, i);
    F sums[R][4] = {};
    for (uint32_t d = 0; d < whole; d += N)
      multiply<N, R, E>(sums, queries, keys, d, N);
    if (whole < t.dim)
      multiply<N, R, E>(sums, queries, keys, whole, t.dim - whole);
    for (int r = 0; r < R; ++r)
      LaneSums<N>::store(&logits[r][i], sums[r][0], sums[r][1], sums[r][2],
                         sums[r][3]);
  }
}

/// Logits to weights; returns what the sums so far are to be multiplied by.
template <int N>
KVC_INLINE float soften(float *logits, uint32_t count, float &most,
                        float &weight) {
  using F = typename Vector<N>::F;
  using U = typename Vector<N>::U;
  for (uint32_t i = count; i < (count + N - 1) / N * N; ++i)
    logits[i] = -__builtin_inff();
  F top;
  std::memcpy(&top, logits, sizeof top);
  for (uint32_t i = N; i < count; i += N) {
    F next;
    std::memcpy(&next, logits + i, sizeof next);
    auto above = U(next > top);
    U a, b;
    std::memcpy(&a, &next, sizeof a);
    std::memcpy(&b, &top, sizeof b);
    a = (above & a) | (~above & b);
    std::memcpy(&top, &a, sizeof top);
  }
  float lanes[N], now = most;
  std::memcpy(lanes, &top, sizeof lanes);
  for (float lane : lanes)
    now = lane > now ? lane : now;
  F total = {};
  for (uint32_t i = 0; i < count; i += N) {
    F value;
    std::memcpy(&value, logits + i, sizeof value);
    value = value - now;
    exp2OfAtMost0<N>(value);
    total += value;
    std::memcpy(logits + i, &value, sizeof value);
  }
  F fade = F{} + (most - now);
  exp2OfAtMost0<N>(fade);
  most = now;
  float sums[4];
  LaneSums<N>::store(sums, total, total, total, total);
  weight = weight * fade[0] + sums[0];
  return fade[0];
}

/// Adds `count` values, weighed, to V vectors of each of R rows.
template <int N, int R, int V, typename E>
KVC_INLINE void mix(float (*sums)[KVC_MAX_HEAD_DIM], const float *fades,
                    float (*weights)[tileKeys], const std::byte *const *values,
                    uint32_t count, uint32_t d, uint32_t left) {
  using F = typename Vector<N>::F;
  F sum[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      std::memcpy(&sum[r][v], &sums[r][d + v * N], sizeof(F));
      sum[r][v] = sum[r][v] * fades[r];
    }
  for (uint32_t i = 0; i < count; ++i) {
    auto *at = reinterpret_cast<const E *>(values[i]) + d;
    F value[V];
    for (int v = 0; v < V; ++v)
      if (left >= uint32_t(V * N))
        widen<N>(value[v], at + v * N);
      else
        widenSome<N>(value[v], at, left);
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v)
        sum[r][v] += weights[r][i] * value[v];
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v)
      std::memcpy(&sums[r][d + v * N], &sum[r][v], sizeof(F));
}

template <int N, int R, typename E>
KVC_INLINE void mixAll(const Tile &t, uint32_t row, const float *fades,
                       float (*weights)[tileKeys]) {
  constexpr int V = 4;
  auto *sums = t.sums->values + row;
  uint32_t d = 0;
  for (; d + V * N <= t.dim; d += V * N)
    mix<N, R, V, E>(sums, fades, weights, t.values, t.count, d, V * N);
  for (; d < t.dim; d += N)
    mix<N, R, 1, E>(sums, fades, weights, t.values, t.count, d, t.dim - d);
}

template <typename Body> KVC_INLINE void byType(kvc_dtype dtype, Body body) {
  if (dtype == KVC_F32)
    body(float());
  else if (dtype == KVC_F16)
    body(F16());
  else
    body(BF16());
}

template <int N, int R> KVC_INLINE void someRows(const Tile &t, uint32_t row) {
  alignas(64) float weights[R][tileKeys];
  float fades[R];
  byType(t.keyType, [&](auto e) __attribute__((always_inline)) {
    logitsOf<N, R, decltype(e)>(t, row, weights);
  });
  for (int r = 0; r < R; ++r)
    fades[r] = soften<N>(weights[r], t.count, t.sums->most[row + r],
                         t.sums->weight[row + r]);
  byType(t.valueType, [&](auto e) __attribute__((always_inline)) {
    mixAll<N, R, decltype(e)>(t, row, fades, weights);
  });
}

template <int N> KVC_INLINE void allRows(const Tile &t) {
  uint32_t row = t.firstRow, end = row + t.rows;
  for (; row + 4 <= end; row += 4)
    someRows<N, 4>(t, row);
  switch (end - row) {
  case 3:
    return someRows<N, 3>(t, row);
  case 2:
    return someRows<N, 2>(t, row);
  case 1:
    return someRows<N, 1>(t, row);
  }
}

void plain(const Tile &t) { allRows<4>(t); }

#ifdef __x86_64__
[[gnu::target("avx2,fma,f16c")]] void avx2(const Tile &t) { allRows<8>(t); }
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]] void
avx512(const Tile &t) {
  allRows<16>(t);
}
constexpr std::array<TileKernel, 3> kernels = {avx512, avx2, plain};
#else
constexpr std::array<TileKernel, 1> kernels = {plain};
#endif

} // namespace

std::span<const TileKernel> kvc::rt::tileKernels() {
  std::span<const TileKernel> all = kernels;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return all;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c"))
    return all.subspan(1);
  return all.subspan(2);
#else
  return all;
#endif
}
