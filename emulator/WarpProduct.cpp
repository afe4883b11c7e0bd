//===- WarpProduct.cpp - the matrix instruction, from vectors of lanes ----===//
//
// Each of the 16 x 8 sums takes its products in ascending k, one rounding each. The
// 16 rows are the lanes of a vector, of which each k has one, and columns come element
// by element: a sum waits for nothing but the product before it.
//
//===----------------------------------------------------------------------===//

#include "emulator/WarpProduct.h"

#include "runtime/base/Half.h"

#include <cstring>

using namespace kvc::rt;

// Vectors longer than the processor's are given back by what is inlined alone, in each
// build: a function of its own is not of the processor that its caller is for, and would
// give them back in other registers.
#pragma GCC diagnostic ignored "-Wpsabi"

#define KVC_INLINED __attribute__((always_inline))
#define KVC_INLINE inline KVC_INLINED

namespace {

typedef uint16_t Halves __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(32)));
typedef float Floats16 __attribute__((vector_size(64)));

constexpr int rows = 16, columns = 8;

template <typename T> KVC_INLINE T loaded(const void *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T> KVC_INLINE void stored(const T &value, void *to) {
  std::memcpy(to, &value, sizeof value);
}

KVC_INLINE Floats widened(Halves halves, bool bf16) {
  Floats wide;
  if (bf16) {
    Words words = __builtin_convertvector(halves, Words) << 16;
    std::memcpy(&wide, &words, sizeof wide);
    return wide;
  }
  for (int i = 0; i < 8; ++i)
    wide[i] = fromF16(halves[i]);
  return wide;
}

/// Eight rows become columns.
KVC_INLINE void transpose(Halves m[8]) {
  Halves next[8];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      next[2 * i] =
          __builtin_shufflevector(m[i], m[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] =
          __builtin_shufflevector(m[i], m[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::memcpy(m, next, sizeof next);
  }
}

// A row of `a` and a column of `b` have eight elements side by side, in four lanes.

KVC_INLINE void left(const uint32_t *a, float *to, uint32_t steps, bool bf16) {
  for (uint32_t eight = 0; eight < steps * 2; ++eight)
    for (int part = 0; part < 2; ++part) {
      Halves m[8];
      std::memcpy(m, a + (eight * 2 + part) * 32, sizeof m);
      transpose(m);
      for (uint32_t i = 0; i < 8; ++i)
        stored(widened(m[i], bf16), to + (eight * 8 + i) * rows + part * 8);
    }
}

KVC_INLINE void right(const uint32_t *b, float *to, uint32_t steps,
                      bool bf16) {
  for (uint32_t eight = 0; eight < steps * 2; ++eight)
    for (uint32_t column = 0; column < columns; ++column)
      stored(widened(loaded<Halves>(b + eight * 32 + column * 4), bf16),
             to + (column * steps * 2 + eight) * 8);
}

/// sum += x * y with one rounding.
template <typename Vector>
KVC_INLINE void addProducts(Vector &sum, const Vector &x, float y) {
  constexpr unsigned lanes = sizeof(Vector) / sizeof y;
#if __has_builtin(__builtin_elementwise_fma)
  Vector all;
  for (unsigned i = 0; i < lanes; ++i)
    all[i] = y;
  sum = __builtin_elementwise_fma(x, all, sum);
#else
  for (unsigned i = 0; i < lanes; ++i)
    sum[i] = __builtin_fmaf(x[i], y, sum[i]);
#endif
}

// Rows of a part of c, of eight: a row is four lanes, which have every other column.

KVC_INLINE void loadPart(const float *c, float sums[columns][rows], int part) {
  for (int lane = 0; lane < 32; ++lane)
    for (int odd = 0; odd < 2; ++odd)
      sums[lane % 4 * 2 + odd][part * 8 + lane / 4] =
          c[(part * 2 + odd) * 32 + lane];
}
KVC_INLINE void storePart(const float sums[columns][rows], float *c, int part) {
  for (int odd = 0; odd < 2; ++odd) {
    auto column = [&](int i) KVC_INLINED {
      return loaded<Floats>(sums[i * 2 + odd] + part * 8);
    };
    // Eight rows of four lanes: 2 x 2, then 4 x 4, of both halves of the vectors.
    auto low = [](const Floats &x, const Floats &y) KVC_INLINED -> Floats {
      return __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13);
    };
    auto high = [](const Floats &x, const Floats &y) KVC_INLINED -> Floats {
      return __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15);
    };
    Floats a = low(column(0), column(1)), b = high(column(0), column(1)),
           d = low(column(2), column(3)), e = high(column(2), column(3));
    auto even = [](const Floats &x, const Floats &y) KVC_INLINED -> Floats {
      return __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13);
    };
    auto uneven = [](const Floats &x, const Floats &y) KVC_INLINED -> Floats {
      return __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15);
    };
    Floats row[4] = {even(a, d), uneven(a, d), even(b, e), uneven(b, e)};
    for (int i = 0; i < 4; i += 2) {
      Floats upper = __builtin_shufflevector(row[i], row[i + 1], 0, 1, 2, 3, 8,
                                             9, 10, 11),
             lower = __builtin_shufflevector(row[i], row[i + 1], 4, 5, 6, 7, 12,
                                             13, 14, 15);
      float *to = c + (part * 2 + odd) * 32 + i * 4;
      stored(upper, to);
      stored(lower, to + 16);
    }
  }
}

/// `together` columns have their sums in registers, of all rows in `Vector`s.
template <typename Vector, int together>
KVC_INLINE void multiply(const float *left, const float *right, float *c,
                         uint32_t steps, bool fresh) {
  constexpr int lanes = sizeof(Vector) / sizeof(float), parts = rows / lanes;
  uint32_t length = steps * 16;
  alignas(64) float sums[columns][rows] = {};
  if (!fresh)
    for (int part = 0; part < 2; ++part)
      loadPart(c, sums, part);
  for (int first = 0; first < columns; first += together) {
    Vector own[together][parts];
    std::memcpy(own, sums[first], sizeof own);
    const float *column[together];
    for (int i = 0; i < together; ++i)
      column[i] = right + size_t(first + i) * length;
    for (size_t k = 0; k < length; ++k)
      for (int part = 0; part < parts; ++part) {
        auto row = loaded<Vector>(left + k * rows + size_t(part * lanes));
#pragma GCC unroll 8
        for (int i = 0; i < together; ++i)
          addProducts(own[i][part], row, column[i][k]);
      }
    std::memcpy(sums[first], own, sizeof own);
  }
  for (int part = 0; part < 2; ++part)
    storePart(sums, c, part);
}

/// A form of the three for a kind of processor.
struct Form {
  void (*left)(const uint32_t *, float *, uint32_t, uint32_t);
  void (*right)(const uint32_t *, float *, uint32_t, uint32_t);
  void (*multiply)(const float *, const float *, float *, uint32_t, uint32_t);
};

#define KVC_FORM(name, target, Vector, together)                               \
  namespace name {                                                             \
  target void ofLeft(const uint32_t *a, float *to, uint32_t steps,             \
                     uint32_t bf16) {                                          \
    bf16 ? left(a, to, steps, true) : left(a, to, steps, false);               \
  }                                                                            \
  target void ofRight(const uint32_t *b, float *to, uint32_t steps,            \
                      uint32_t bf16) {                                         \
    bf16 ? right(b, to, steps, true) : right(b, to, steps, false);             \
  }                                                                            \
  target void product(const float *left, const float *right, float *c,         \
                      uint32_t steps, uint32_t fresh) {                        \
    multiply<Vector, together>(left, right, c, steps, fresh);                  \
  }                                                                            \
  constexpr Form form = {ofLeft, ofRight, product};                            \
  }

// 16 registers: four columns of two vectors each; 32 of twice the length: all eight.
KVC_FORM(any, , Floats, 4)
#if defined(__x86_64__)
KVC_FORM(third, __attribute__((target("avx2,fma"))), Floats, 4)
KVC_FORM(fourth, __attribute__((target("avx512f,avx512vl,avx512bw,avx2,fma"))),
         Floats16, 8)
#endif

const Form &form() {
#if defined(__x86_64__)
  static const Form &best =
      !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")
          ? any::form
      : !__builtin_cpu_supports("avx512vl") ||
              !__builtin_cpu_supports("avx512bw")
          ? third::form
          : fourth::form;
  return best;
#else
  return any::form;
#endif
}

} // namespace

void kvc::rt::widenLeft(const uint32_t *a, float *left, uint32_t steps,
                        uint32_t bf16) {
  form().left(a, left, steps, bf16);
}
void kvc::rt::widenRight(const uint32_t *b, float *right, uint32_t steps,
                         uint32_t bf16) {
  form().right(b, right, steps, bf16);
}
void kvc::rt::multiplyWide(const float *left, const float *right, float *c,
                           uint32_t steps, uint32_t fresh) {
  form().multiply(left, right, c, steps, fresh);
}
