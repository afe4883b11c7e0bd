//===- Memory.cpp - ld, st, atom, red -------------------------------------===//

#include "ptx/Block.h"
#include "ptx/GlobalMemory.h"
#include "ptx/Lanewise.h"
#include "ptx/Opcodes.h"
#include "runtime/base/Failure.h"

#include <atomic>
#include <cstring>

using namespace kvc::ptx;
using kvc::rt::fail;

namespace {

enum class Space { Parameter, Global, Shared };

/// `bytes` at an address of a lane; of vectors the address is a multiple of all.
template <Space space>
const std::byte *readable(Warp &warp, uint64_t address, uint32_t bytes,
                          uint32_t lane) {
  Block &block = warp.block;
  if constexpr (space == Space::Shared)
    return block.shared.read(address, bytes, accessOf(warp, lane));
  if constexpr (space == Space::Global)
    return globalAt(warp, address, bytes, lane);
  if (address > block.parameters.size() ||
      bytes > block.parameters.size() - address)
    throw fail(KVC_INTERNAL_ERROR, "parameters have {} bytes, got {} at {}",
               block.parameters.size(), bytes, address);
  return block.parameters.data() + address;
}

template <Space space, typename T>
void load(Warp &warp, const Instruction &op, uint32_t lanes) {
  uint32_t bytes = uint32_t(sizeof(T) * op.results.size());
  forLanes(lanes, [&](uint32_t lane) {
    const std::byte *from = readable<space>(
        warp, addressOf(warp, op.operands[0], lane), bytes, lane);
    for (size_t i = 0; i < op.results.size(); ++i) {
      T value;
      std::memcpy(&value, from + i * sizeof(T), sizeof(T));
      warp.row(op.results[i])[lane] = bitsOf(value);
    }
  });
}

template <Space space, typename T>
void store(Warp &warp, const Instruction &op, uint32_t lanes) {
  size_t values = op.operands.size() - 1;
  uint32_t bytes = uint32_t(sizeof(T) * values);
  forLanes(lanes, [&](uint32_t lane) {
    T from[4];
    for (size_t i = 0; i < values; ++i)
      from[i] = valueOf<T>(warp[op.operands[i + 1]][lane]);
    uint64_t address = addressOf(warp, op.operands[0], lane);
    if constexpr (space == Space::Shared)
      warp.block.shared.write(address, bytes, from, accessOf(warp, lane));
    else
      std::memcpy(globalAt(warp, address, bytes, lane), from, bytes);
  });
}

/// atom and red: lanes one after the other. Blocks may run at the same time.
template <Space space, typename T, auto f>
void change(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    uint64_t address = addressOf(warp, op.operands[0], lane);
    T value = valueOf<T>(warp[op.operands[1]][lane]), old;
    if constexpr (space == Space::Shared) {
      std::byte *at =
          warp.block.shared.change(address, sizeof(T), accessOf(warp, lane));
      std::memcpy(&old, at, sizeof(T));
      T now = f(old, value);
      std::memcpy(at, &now, sizeof(T));
    } else {
      std::atomic_ref<T> at(
          *reinterpret_cast<T *>(globalAt(warp, address, sizeof(T), lane)));
      old = at.load();
      while (!at.compare_exchange_weak(old, f(old, value)))
        ;
    }
    if (!op.results.empty())
      warp.row(op.results[0])[lane] = bitsOf(old);
  });
}

template <Space space, typename T> Handler findChange(std::string_view name) {
  if (name == "add")
    return change<space, T, [](T a, T b) { return T(a + b); }>;
  if (name == "min")
    return change<space, T, [](T a, T b) { return std::min(a, b); }>;
  if (name == "max")
    return change<space, T, [](T a, T b) { return std::max(a, b); }>;
  if (name == "exch")
    return change<space, T, [](T, T b) { return b; }>;
  if constexpr (!std::is_same_v<T, float>) {
    if (name == "and")
      return change<space, T, [](T a, T b) { return T(a & b); }>;
    if (name == "or")
      return change<space, T, [](T a, T b) { return T(a | b); }>;
    if (name == "xor")
      return change<space, T, [](T a, T b) { return T(a ^ b); }>;
  }
  return nullptr;
}

template <Space space>
Handler findAtomic(std::string_view name, std::string_view type) {
  if (type == "f32")
    return name == "add" || name == "exch" ? findChange<space, float>(name)
                                           : nullptr;
  return withInteger<Handler>(type, [&](auto t) -> Handler {
    using T = decltype(t);
    return sizeof(T) < 4 ? nullptr : findChange<space, T>(name);
  });
}

template <Space space> Handler findAccess(bool loads, std::string_view type) {
  auto of = [&](auto t) -> Handler {
    using T = decltype(t);
    if constexpr (space != Space::Parameter)
      if (!loads)
        return store<space, T>;
    return loads ? load<space, T> : nullptr;
  };
  if (type == "b8" || type == "u8")
    return of(uint8_t());
  if (type == "s8")
    return of(int8_t());
  if (type == "f32")
    return of(float());
  return withInteger<Handler>(type, of);
}

} // namespace

std::optional<Opcode> kvc::ptx::findMemory(Parts parts) {
  std::string_view name = parts[0], type = parts.back();
  if (parts.size() < 3)
    return std::nullopt;
  std::string_view space = parts[1];
  Parts modes = parts.subspan(2, parts.size() - 3);
  if (name == "atom" || name == "red") {
    if (modes.size() != 1)
      return std::nullopt;
    Handler run = space == "shared" ? findAtomic<Space::Shared>(modes[0], type)
                  : space == "global"
                      ? findAtomic<Space::Global>(modes[0], type)
                      : nullptr;
    if (!run)
      return std::nullopt;
    return Opcode{{run, 2}, name == "atom" ? 1 : 0};
  }
  if (name != "ld" && name != "st")
    return std::nullopt;
  bool loads = name == "ld";
  size_t values = 1;
  for (std::string_view mode : modes)
    if ((mode == "v2" || mode == "v4") && values == 1)
      values = mode == "v2" ? 2 : 4;
    else if (mode != "nc" || !loads || space != "global")
      return std::nullopt;
  Handler run = space == "global"   ? findAccess<Space::Global>(loads, type)
                : space == "shared" ? findAccess<Space::Shared>(loads, type)
                : space == "param"  ? findAccess<Space::Parameter>(loads, type)
                                    : nullptr;
  if (!run)
    return std::nullopt;
  return loads ? Opcode{{run, 1}, values} : Opcode{{run, values + 1}, 0};
}
