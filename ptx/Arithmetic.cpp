//===- Arithmetic.cpp - integers, fp32, predicates, comparisons -----------===//
//
// fp32 is rounded to nearest even, as the opcodes say (.rn) or mean by default.
// The approximations (ex2, lg2, rcp, rsqrt) are the C library's functions: a GPU
// differs from them in the last bits.
//
//===----------------------------------------------------------------------===//

#include "emulator/Functions.h"
#include "ptx/Lanewise.h"
#include "ptx/Opcodes.h"

#include <algorithm>
#include <bit>
#include <cmath>

using namespace kvc::ptx;

namespace {

template <typename T> using Unsigned = std::make_unsigned_t<T>;
using Word = unsigned __int128;

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

template <typename T> constexpr T high(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, Word>;
  return T(Wide(a) * Wide(b) >> (8 * sizeof(T)));
}
template <typename T> constexpr T divide(T a, T b) {
  // What a GPU gives for a division by 0 is not defined; this can be seen.
  if (b == 0)
    return T(~T(0));
  if (std::is_signed_v<T> && b == T(-1))
    return T(0 - Unsigned<T>(a));
  return a / b;
}
template <typename T> constexpr T remainder(T a, T b) {
  if (b == 0)
    return a;
  if (std::is_signed_v<T> && b == T(-1))
    return 0;
  return a % b;
}

/// mul.wide: the result has twice the bits.
template <typename T, bool adds>
void multiplyWide(Warp &warp, const Instruction &op, uint32_t lanes) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  Lanes &to = warp.row(op.results[0]);
  const Lanes &a = warp[op.operands[0]], &b = warp[op.operands[1]];
  forLanes(lanes, [&](uint32_t i) {
    uint64_t product =
        uint64_t(Wide(valueOf<T>(a[i])) * Wide(valueOf<T>(b[i])));
    to[i] = adds ? product + warp[op.operands.back()][i] : product;
  });
}

/// A shift's distance has 32 bits; from the width on nothing is left.
template <typename T, bool left>
void shift(Warp &warp, const Instruction &op, uint32_t lanes) {
  constexpr uint32_t width = 8 * sizeof(T);
  Lanes &to = warp.row(op.results[0]);
  const Lanes &a = warp[op.operands[0]], &b = warp[op.operands[1]];
  forLanes(lanes, [&](uint32_t i) {
    T value = valueOf<T>(a[i]);
    uint32_t distance = std::min(uint32_t(b[i]), width);
    if (left)
      to[i] = distance == width ? 0 : uint64_t(Unsigned<T>(value)) << distance;
    else
      to[i] = bitsOf(T(value >> std::min(distance, width - 1)));
    if (!left && !std::is_signed_v<T> && distance == width)
      to[i] = 0;
  });
}

/// shf: 32 bits of the 64 that `b` and, below, `a` are, moved. A distance of more than 31
/// bits is taken modulo 32, or of more than 32 as 32.
template <bool left, bool wraps>
uint32_t funnel(uint32_t a, uint32_t b, uint32_t c) {
  uint64_t both = uint64_t(b) << 32 | a;
  uint32_t distance = wraps ? c & 31 : std::min(c, 32u);
  return uint32_t(left ? both << distance >> 32 : both >> distance);
}

Body findFunnel(Parts modes) {
  if (modes.size() != 2 || (modes[0] != "l" && modes[0] != "r") ||
      (modes[1] != "wrap" && modes[1] != "clamp"))
    return {};
  bool left = modes[0] == "l", wraps = modes[1] == "wrap";
  return left    ? wraps ? lanewise<uint32_t, funnel<true, true>>()
                         : lanewise<uint32_t, funnel<true, false>>()
         : wraps ? lanewise<uint32_t, funnel<false, true>>()
                 : lanewise<uint32_t, funnel<false, false>>();
}

/// The bits behind the last one are, of a signed type, the field's highest: that of the whole
/// number where the field goes over its end.
template <typename T>
void extract(Warp &warp, const Instruction &op, uint32_t lanes) {
  constexpr uint64_t bits = sizeof(T) * 8;
  Lanes &to = warp.row(op.results[0]);
  forLanes(lanes, [&](uint32_t i) {
    T value = T(warp[op.operands[0]][i]);
    uint64_t from = warp[op.operands[1]][i] & 255;
    uint64_t length = warp[op.operands[2]][i] & 255;
    uint64_t last = std::min(from + length, bits) - 1; // its highest bit
    bool sign = std::is_signed_v<T> && length && (value >> last & 1);
    uint64_t field = from >= bits ? 0 : Unsigned<T>(value) >> from;
    uint64_t kept = length >= 64 ? ~0ull : (1ull << length) - 1;
    if (from < bits && length > bits - from)
      kept = (1ull << (bits - from)) - 1;
    if (from >= bits)
      kept = 0;
    to[i] = Unsigned<T>((field & kept) | (sign ? ~kept : 0));
  });
}

/// add.cc, addc, addc.cc and so for sub: with the carry (or borrow) of the
/// instruction before, and one for the next.
template <typename T, bool subtracts, bool takes, bool gives>
void carrying(Warp &warp, const Instruction &op, uint32_t lanes) {
  Lanes &to = warp.row(op.results[0]);
  const Lanes &a = warp[op.operands[0]], &b = warp[op.operands[1]];
  forLanes(lanes, [&](uint32_t i) {
    Word in = takes ? warp.carry >> i & 1 : 0;
    Word x = Unsigned<T>(a[i]), y = Unsigned<T>(b[i]);
    Word sum = subtracts ? x - y - in : x + y + in;
    to[i] = Unsigned<T>(sum);
    if (gives)
      warp.carry =
          (warp.carry & ~(1u << i)) | uint32_t(sum >> (8 * sizeof(T)) & 1) << i;
  });
}

Body findCarrying(Parts parts) {
  bool subtracts = parts[0].starts_with("sub"), takes = parts[0].ends_with("c"),
       gives = parts[1] == "cc";
  return withInteger<Body>(parts.back(), [&](auto t) -> Body {
    using T = decltype(t);
    Handler run = subtracts ? takes ? (gives ? carrying<T, true, true, true>
                                             : carrying<T, true, true, false>)
                                    : carrying<T, true, false, true>
                  : takes   ? (gives ? carrying<T, false, true, true>
                                     : carrying<T, false, true, false>)
                            : carrying<T, false, false, true>;
    return {run, 2};
  });
}

Body findInteger(std::string_view name, std::string_view mode,
                 std::string_view type) {
  return withInteger<Body>(type, [&](auto t) -> Body {
    using T = decltype(t);
    using U = Unsigned<T>; // wraps
    if (mode == "wide" && sizeof(T) < 8) {
      if (name == "mul")
        return {multiplyWide<T, false>, 2};
      if (name == "mad")
        return {multiplyWide<T, true>, 3};
    }
    if (mode == "hi" && name == "mul")
      return lanewise<T, [](T a, T b) { return high(a, b); }>();
    if (mode == "lo" && name == "mul")
      return lanewise<U, [](U a, U b) { return U(1u * a * b); }>();
    if (mode == "lo" && name == "mad")
      return lanewise<U, [](U a, U b, U c) { return U(1u * a * b + c); }>();
    if (!mode.empty())
      return {};
    if (name == "add")
      return lanewise<U, [](U a, U b) { return U(a + b); }>();
    if (name == "sub")
      return lanewise<U, [](U a, U b) { return U(a - b); }>();
    if (name == "div")
      return lanewise<T, [](T a, T b) { return divide(a, b); }>();
    if (name == "rem")
      return lanewise<T, [](T a, T b) { return remainder(a, b); }>();
    if (name == "min")
      return lanewise<T, [](T a, T b) { return std::min(a, b); }>();
    if (name == "max")
      return lanewise<T, [](T a, T b) { return std::max(a, b); }>();
    if (name == "and")
      return lanewise<U, [](U a, U b) { return U(a & b); }>();
    if (name == "or")
      return lanewise<U, [](U a, U b) { return U(a | b); }>();
    if (name == "xor")
      return lanewise<U, [](U a, U b) { return U(a ^ b); }>();
    if (name == "not")
      return lanewise<U, [](U a) { return U(~a); }>();
    if (name == "neg")
      return lanewise<U, [](U a) { return U(0 - a); }>();
    if (name == "abs")
      return lanewise<T, [](T a) { return a < 0 ? T(0 - U(a)) : a; }>();
    if (name == "popc")
      return lanewise<U, [](U a) { return uint32_t(std::popcount(a)); }>();
    if (name == "clz")
      return lanewise<U, [](U a) { return uint32_t(std::countl_zero(a)); }>();
    if (name == "shl")
      return {shift<T, true>, 2};
    if (name == "shr")
      return {shift<T, false>, 2};
    if (name == "bfe")
      return {extract<T>, 3};
    return {};
  });
}

//===----------------------------------------------------------------------===//
// fp32
//===----------------------------------------------------------------------===//

/// max and min: a number beats NaN, and 0 is above -0.
float larger(float a, float b) {
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b || std::isnan(b) ? a : b;
}
float smaller(float a, float b) { return -larger(-a, -b); }

float notANumber() { return std::bit_cast<float>(0x7fffffffu); }

/// max and min, which 16 bits hold as they are.
template <typename T> Body findExtreme(std::string_view name, Parts modes) {
  bool plain = modes.empty(),
       propagates = modes.size() == 1 && modes[0] == "NaN";
  if (plain && name == "max")
    return lanewise<T, [](T a, T b) { return T(larger(a, b)); }>();
  if (plain && name == "min")
    return lanewise<T, [](T a, T b) { return T(smaller(a, b)); }>();
  if (propagates && name == "max")
    return lanewise<T, [](T a, T b) {
      return T(a != a || b != b ? notANumber() : larger(a, b));
    }>();
  if (propagates && name == "min")
    return lanewise<T, [](T a, T b) {
      return T(a != a || b != b ? notANumber() : smaller(a, b));
    }>();
  return {};
}

/// .ftz: numbers below the smallest normal one are 0.
float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value)
                                                : value;
}

Body findFloat(std::string_view name, Parts modes) {
  auto is = [&](std::initializer_list<std::string_view> want) {
    return std::equal(modes.begin(), modes.end(), want.begin(), want.end());
  };
  bool rounds = is({}) || is({"rn"});
  if (rounds && name == "add")
    return lanewise<float, [](float a, float b) { return a + b; }>();
  if (rounds && name == "sub")
    return lanewise<float, [](float a, float b) { return a - b; }>();
  if (rounds && name == "mul")
    return lanewise<float, [](float a, float b) { return a * b; }>();
  if (is({"rn"}) && name == "div")
    return lanewise<float, [](float a, float b) { return a / b; }>();
  if (is({"rn"}) && name == "fma")
    return lanewise<float, [](float a, float b, float c) {
      return std::fma(a, b, c);
    }>();
  if (is({"rn"}) && name == "sqrt")
    return lanewise<float, [](float a) { return std::sqrt(a); }>();
  if ((is({"rn"}) || is({"approx"})) && name == "rcp")
    return lanewise<float, [](float a) { return 1 / a; }>();
  if (is({"approx"}) && name == "rsqrt")
    return lanewise<float, [](float a) { return 1 / std::sqrt(a); }>();
  if (is({"approx"}) && name == "ex2")
    return lanewise<float, [](float a) { return std::exp2(a); }>();
  if (is({"approx", "ftz"}) && name == "ex2")
    return lanewise<float,
                    [](float a) { return kvc::rt::exp2OfGPU(flushed(a)); }>();
  if (is({"approx"}) && name == "lg2")
    return lanewise<float, [](float a) { return std::log2(a); }>();
  if (Body body = findExtreme<float>(name, modes))
    return body;
  // The first operand's sign, the second's number.
  if (is({}) && name == "copysign")
    return lanewise<uint32_t, [](uint32_t a, uint32_t b) {
      return (a & 0x80000000) | (b & 0x7fffffff);
    }>();
  // The sign alone, of NaN too.
  if (is({}) && name == "abs")
    return lanewise<uint32_t, [](uint32_t a) { return a & 0x7fffffff; }>();
  if (is({}) && name == "neg")
    return lanewise<uint32_t, [](uint32_t a) { return a ^ 0x80000000; }>();
  return {};
}

//===----------------------------------------------------------------------===//
// Predicates, comparisons, moves
//===----------------------------------------------------------------------===//

Body findPredicate(std::string_view name) {
  if (name == "and")
    return lanewise<bool, [](bool a, bool b) { return a && b; }>();
  if (name == "or")
    return lanewise<bool, [](bool a, bool b) { return a || b; }>();
  if (name == "xor")
    return lanewise<bool, [](bool a, bool b) { return a != b; }>();
  if (name == "not")
    return lanewise<bool, [](bool a) { return !a; }>();
  return {};
}

template <typename T> Body findComparison(std::string_view name) {
  if (name == "eq")
    return lanewise<T, [](T a, T b) { return a == b; }>();
  if (name == "lt" || name == "lo")
    return lanewise<T, [](T a, T b) { return a < b; }>();
  if (name == "le" || name == "ls")
    return lanewise<T, [](T a, T b) { return a <= b; }>();
  if (name == "gt" || name == "hi")
    return lanewise<T, [](T a, T b) { return a > b; }>();
  if (name == "ge" || name == "hs")
    return lanewise<T, [](T a, T b) { return a >= b; }>();
  if constexpr (!isFloat<T>)
    return name == "ne" ? lanewise<T, [](T a, T b) { return a != b; }>()
                        : Body();
  // Ordered, then unordered: NaN makes the first false, the second true.
  if (name == "ne")
    return lanewise<T, [](T a, T b) { return a < b || a > b; }>();
  if (name == "equ")
    return lanewise<T, [](T a, T b) { return !(a < b || a > b); }>();
  if (name == "neu")
    return lanewise<T, [](T a, T b) { return a != b; }>();
  if (name == "ltu")
    return lanewise<T, [](T a, T b) { return !(a >= b); }>();
  if (name == "leu")
    return lanewise<T, [](T a, T b) { return !(a > b); }>();
  if (name == "gtu")
    return lanewise<T, [](T a, T b) { return !(a <= b); }>();
  if (name == "geu")
    return lanewise<T, [](T a, T b) { return !(a < b); }>();
  if (name == "num")
    return lanewise<T, [](T a, T b) { return a == a && b == b; }>();
  if (name == "nan")
    return lanewise<T, [](T a, T b) { return a != a || b != b; }>();
  return {};
}

void choose(Warp &warp, const Instruction &op, uint32_t lanes) {
  Lanes &to = warp.row(op.results[0]);
  const Lanes &a = warp[op.operands[0]], &b = warp[op.operands[1]],
              &holds = warp[op.operands[2]];
  forLanes(lanes, [&](uint32_t i) { to[i] = holds[i] & 1 ? a[i] : b[i]; });
}

void move(Warp &warp, const Instruction &op, uint32_t lanes) {
  Lanes &to = warp.row(op.results[0]);
  const Lanes &from = warp[op.operands[0]];
  forLanes(lanes, [&](uint32_t i) { to[i] = from[i]; });
}

/// mov.b32 %r, {%h0, %h1} and mov.b32 {%h0, %h1}, %r.
template <uint32_t bits>
void pack(Warp &warp, const Instruction &op, uint32_t lanes) {
  if (op.operands.size() == 1 && op.results.size() == 1)
    return move(warp, op, lanes);
  size_t parts = std::max(op.operands.size(), op.results.size());
  uint32_t each = bits / uint32_t(parts);
  uint64_t mask = (1ull << each) - 1;
  forLanes(lanes, [&](uint32_t i) {
    uint64_t whole = 0;
    for (size_t part = 0; part < op.operands.size(); ++part)
      whole |= op.operands.size() == 1
                   ? warp[op.operands[0]][i]
                   : (warp[op.operands[part]][i] & mask) << each * part;
    for (size_t part = 0; part < op.results.size(); ++part)
      warp.row(op.results[part])[i] =
          op.results.size() == 1 ? whole : whole >> each * part & mask;
  });
}

} // namespace

std::optional<Opcode> kvc::ptx::findArithmetic(Parts parts) {
  std::string_view name = parts.front(), type = parts.back();
  if (parts.size() < 2)
    return std::nullopt;
  Parts modes = parts.subspan(1, parts.size() - 2);
  Body body;
  Count results = 1;
  if (name == "setp") {
    if (modes.size() != 1)
      return std::nullopt;
    body = type == "f32"    ? findComparison<float>(modes[0])
           : type == "f16"  ? findComparison<F16>(modes[0])
           : type == "bf16" ? findComparison<BF16>(modes[0])
                            : withInteger<Body>(type, [&](auto t) {
                                return findComparison<decltype(t)>(modes[0]);
                              });
  } else if (name == "shf" && type == "b32") {
    body = findFunnel(modes);
  } else if (name == "selp" && modes.empty()) {
    if (bytesOf(type))
      body = {choose, 3};
  } else if (name == "mov" && modes.empty()) {
    if (type == "b32" || type == "b64") {
      body = {type == "b32" ? pack<32> : pack<64>, {1, 4}};
      results = {1, 4};
    } else if (bytesOf(type) || type == "pred") {
      body = {move, 1};
    }
  } else if (name == "addc" || name == "subc" ||
             ((name == "add" || name == "sub") && modes.size() == 1 &&
              modes[0] == "cc")) {
    if (modes.empty() || (modes.size() == 1 && modes[0] == "cc"))
      body = findCarrying(parts);
  } else if (type == "f32") {
    body = findFloat(name, modes);
  } else if (type == "pred") {
    if (modes.empty())
      body = findPredicate(name);
  } else if (type == "bf16" || type == "f16") {
    // What rounds nothing; there are no sums of 16 bits in our kernels.
    body = type == "f16" ? findExtreme<F16>(name, modes)
                         : findExtreme<BF16>(name, modes);
    if (modes.empty() && name == "abs")
      body =
          lanewise<uint16_t, [](uint16_t a) { return uint16_t(a & 0x7fff); }>();
    if (modes.empty() && name == "neg")
      body =
          lanewise<uint16_t, [](uint16_t a) { return uint16_t(a ^ 0x8000); }>();
  } else if (modes.size() <= 1) {
    body = findInteger(name, modes.empty() ? "" : modes[0], type);
  }
  if (!body)
    return std::nullopt;
  return Opcode{body, results};
}
