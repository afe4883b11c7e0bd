//===- Conversion.cpp - cvt and cvta --------------------------------------===//

#include "ptx/Block.h"
#include "ptx/Lanewise.h"
#include "ptx/Opcodes.h"
#include "runtime/base/Half.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace kvc::ptx;

namespace {

enum class Rounding { Nearest, Zero, Down, Up };

std::optional<Rounding> roundingOf(std::string_view name) {
  if (name == "rni")
    return Rounding::Nearest;
  if (name == "rzi")
    return Rounding::Zero;
  if (name == "rmi")
    return Rounding::Down;
  if (name == "rpi")
    return Rounding::Up;
  return std::nullopt;
}

template <Rounding rounding> float rounded(float a) {
  if constexpr (rounding == Rounding::Nearest)
    return std::nearbyint(a); // the program never changes the mode
  if constexpr (rounding == Rounding::Zero)
    return std::trunc(a);
  if constexpr (rounding == Rounding::Down)
    return std::floor(a);
  return std::ceil(a);
}

/// NaN becomes 0, what is out of range the nearest number.
template <typename T> T toInteger(float a) {
  if (a != a)
    return 0;
  // The largest T as a float may lie one above it.
  if (a >= -float(std::numeric_limits<std::make_signed_t<T>>::min()) *
               (std::is_signed_v<T> ? 1 : 2))
    return std::numeric_limits<T>::max();
  if (a <= float(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  return T(a);
}

template <typename From, typename To, auto f> Body convert() {
  auto run = [](Warp &warp, const Instruction &op, uint32_t lanes) {
    Lanes &to = warp.row(op.results[0]);
    const Lanes &from = warp[op.operands[0]];
    forLanes(lanes, [&](uint32_t i) {
      to[i] = bitsOf(To(f(valueOf<From>(from[i]))));
    });
  };
  return {run, 1};
}

/// PTX has one NaN of 16 bits.
uint16_t toBF16(float a) { return a != a ? 0x7fff : kvc::rt::toBF16(a); }
uint16_t toF16(float a) { return a != a ? 0x7fff : kvc::rt::toF16(a); }

template <Rounding rounding, float (*widen)(uint16_t),
          uint16_t (*narrow)(float)>
Body ofHalf() {
  return convert<uint16_t, uint16_t, [](uint16_t a) {
    return narrow(rounded<rounding>(widen(a)));
  }>();
}

/// To whole numbers: of a float as such, or as integers; of 16 bits they have these.
template <Rounding rounding>
Body toWhole(std::string_view to, std::string_view from) {
  if (from == "f16" && to == from)
    return ofHalf<rounding, kvc::rt::fromF16, toF16>();
  if (from == "bf16" && to == from)
    return ofHalf<rounding, kvc::rt::fromBF16, toBF16>();
  if (from != "f32")
    return {};
  if (to == "f32")
    return convert<float, float, rounded<rounding>>();
  return withInteger<Body>(to, [](auto t) {
    using T = decltype(t);
    return convert<float, T, [](float a) {
      return toInteger<T>(rounded<rounding>(a));
    }>();
  });
}

/// cvt.rn.bf16x2.f32 d, a, b: a is the upper half.
template <uint16_t (*f)(float)>
void convertTwo(Warp &warp, const Instruction &op, uint32_t lanes) {
  Lanes &to = warp.row(op.results[0]);
  const Lanes &a = warp[op.operands[0]], &b = warp[op.operands[1]];
  forLanes(lanes, [&](uint32_t i) {
    to[i] = uint32_t(f(valueOf<float>(a[i]))) << 16 | f(valueOf<float>(b[i]));
  });
}

void addressOfParameter(Warp &warp, const Instruction &op, uint32_t lanes) {
  auto first = reinterpret_cast<uint64_t>(warp.block.parameters.data());
  const Lanes &offsets = warp[op.operands[0]];
  forLanes(lanes, [&](uint32_t lane) {
    warp.row(op.results[0])[lane] = first + offsets[lane];
  });
}

Body findConvert(Parts modes, std::string_view to, std::string_view from) {
  bool nearest = modes.size() == 1 && modes[0] == "rn";
  if (nearest && from == "f32") {
    if (to == "bf16x2")
      return {convertTwo<toBF16>, 2};
    if (to == "f16x2")
      return {convertTwo<toF16>, 2};
    if (to == "bf16")
      return convert<float, uint16_t, toBF16>();
    if (to == "f16")
      return convert<float, uint16_t, toF16>();
  }
  if (modes.empty() && to == "f32") {
    if (from == "bf16")
      return convert<uint16_t, float, kvc::rt::fromBF16>();
    if (from == "f16")
      return convert<uint16_t, float, kvc::rt::fromF16>();
  }
  if (nearest && to == "f32")
    return withInteger<Body>(from, [](auto t) {
      using T = decltype(t);
      return convert<T, float, [](T a) { return float(a); }>();
    });
  if (modes.size() == 1)
    if (std::optional<Rounding> rounding = roundingOf(modes[0]))
      switch (*rounding) {
      case Rounding::Nearest:
        return toWhole<Rounding::Nearest>(to, from);
      case Rounding::Zero:
        return toWhole<Rounding::Zero>(to, from);
      case Rounding::Down:
        return toWhole<Rounding::Down>(to, from);
      case Rounding::Up:
        return toWhole<Rounding::Up>(to, from);
      }
  if (!modes.empty())
    return {};
  // Between integers: cut, or extended as the source's type says.
  auto integers = [&](auto f) {
    return withInteger<Body>(to, [&](auto t) {
      return convert<decltype(f), decltype(t),
                     [](decltype(f) a) { return a; }>();
    });
  };
  if (from == "u8")
    return integers(uint8_t());
  if (from == "s8")
    return integers(int8_t());
  if (to == "u8" || to == "s8")
    return withInteger<Body>(from, [&](auto f) -> Body {
      using F = decltype(f);
      return to == "u8" ? convert<F, uint8_t, [](F a) { return uint8_t(a); }>()
                        : convert<F, int8_t, [](F a) { return int8_t(a); }>();
    });
  return withInteger<Body>(from, integers);
}

} // namespace

std::optional<Opcode> kvc::ptx::findConversion(Parts parts) {
  // A generic address of global memory is that address.
  constexpr std::string_view toGlobal[] = {"cvta", "to", "global", "u64"},
                             ofGlobal[] = {"cvta", "global", "u64"};
  if (std::ranges::equal(parts, toGlobal) ||
      std::ranges::equal(parts, ofGlobal))
    return Opcode{lanewise<uint64_t, [](uint64_t a) { return a; }>()};
  // The bulk copy engine reads tensor maps where the parameters lie.
  constexpr std::string_view ofParameters[] = {"cvta", "param", "u64"};
  if (std::ranges::equal(parts, ofParameters))
    return Opcode{{addressOfParameter, 1}};
  if (parts[0] != "cvt" || parts.size() < 3)
    return std::nullopt;
  Body body = findConvert(parts.subspan(1, parts.size() - 3),
                          parts[parts.size() - 2], parts.back());
  if (!body)
    return std::nullopt;
  return Opcode{body};
}
