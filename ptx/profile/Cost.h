//===- Cost.h - what an instruction takes on a GPU ------------------------===//
//
// An estimate from the PTX alone: how many SASS instructions ptxas makes of it on
// average, the unit that runs them, and the clocks until a result can be used.
// Weights were fitted to the SASS of hot loops (within 15 %); latencies are those
// that are published for sm_80 to sm_90.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_PROFILE_COST_H
#define KVC_PTX_PROFILE_COST_H

#include <cstdint>
#include <span>
#include <string_view>

namespace kvc::ptx {

enum class Unit : uint8_t {
  Integer,
  Float,
  Special, // exponentials, logarithms, roots, conversions
  Matrix,
  Shared,
  Global,
  Atomic,
  Shuffle,
  Barrier,
  Control,
  Move
};
inline constexpr size_t unitCount = size_t(Unit::Move) + 1;
/// "integer", say.
const char *unitName(Unit unit);

enum class Traffic : uint8_t {
  None,
  Load,
  Store,
  Change,
  Copy, // cp.async, what closes a group, what waits for one
  Commit,
  Wait,
  Bulk, // cp.async.bulk, and what waits for its arrival
  Arrive,
  Products, // wgmma.mma_async, what closes a group, what waits for one
  CommitProducts,
  WaitForProducts
};

struct Cost {
  Unit unit = Unit::Integer;
  float issues = 1;     // SASS instructions
  float latency = 5;    // clocks; of global loads: what the caches say
  bool special = false; // one operation of the special-function unit a lane
  Traffic traffic = Traffic::None;
  bool shared = false;
  uint8_t bytes = 0;    // of a memory access, a lane
  uint32_t lanes = ~0u; // whose addresses count
  float products = 0;   // worth so many mma.m16n8k16
};

/// Clocks behind the last of a matrix product until its results can be used.
inline constexpr float productLatency = 33;

/// Of an opcode in its parts, {"ld", "global", "v4", "b32"}.
Cost costOf(std::span<const std::string_view> parts);

} // namespace kvc::ptx

#endif // KVC_PTX_PROFILE_COST_H
