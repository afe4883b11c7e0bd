//===- Opcodes.h - what the machine can execute ---------------------------===//
//
// An opcode is its parts: "setp.lt.s32" is {"setp", "lt", "s32"}. Each file below
// knows a family of them and returns null for what it does not know, so that an
// unknown opcode, or a known one with an unknown modifier, is refused by name
// instead of run as something near to it.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_OPCODES_H
#define KVC_PTX_OPCODES_H

#include "ptx/Program.h"

#include <optional>
#include <span>
#include <string_view>

namespace kvc::ptx {

using Parts = std::span<const std::string_view>;

/// How many there may be.
struct Count {
  size_t least = 0, most = 0;
  bool between = true; // any of those between, too
  constexpr Count(size_t exactly = 0) : least(exactly), most(exactly) {}
  constexpr Count(size_t least, size_t most, bool between = true)
      : least(least), most(most), between(between) {}
  bool has(size_t count) const {
    return count == least || count == most ||
           (between && least < count && count < most);
  }
};

/// What executes an opcode, with the operands that it reads.
struct Body {
  Handler run = nullptr;
  Count operands;
  explicit operator bool() const { return run; }
};

/// An opcode as the parser must know it. Results stand in front of the operands;
/// braces around several count as one place.
struct Opcode {
  Body body;
  Count results = 1;
  Flow flow = Flow::Next;
  bool negates = false; // "!" may stand before an operand
  bool keeps = false;   // Instruction
};

std::optional<Opcode> findArithmetic(Parts parts); // Arithmetic.cpp
std::optional<Opcode> findConversion(Parts parts); // Conversion.cpp
std::optional<Opcode> findMemory(Parts parts);     // Memory.cpp
std::optional<Opcode> findAsyncCopy(Parts parts);  // AsyncCopies.cpp
std::optional<Opcode> findBulkCopy(Parts parts);   // BulkCopies.cpp
std::optional<Opcode> findCollective(Parts parts); // Collective.cpp
std::optional<Opcode> findCluster(Parts parts);    // Cluster.cpp
std::optional<Opcode> findControl(Parts parts);    // Control.cpp
std::optional<Opcode> findWarpgroup(Parts parts);  // WarpgroupProducts.cpp

} // namespace kvc::ptx

#endif // KVC_PTX_OPCODES_H
