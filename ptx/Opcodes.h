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

/// How an opcode is executed, and how many results stand in front of its
/// operands (1, or 0 where there are none; braces around several count as one).
struct Opcode {
  Handler run;
  int results = 1;
  Flow flow = Flow::Next;
};

std::optional<Opcode> findArithmetic(Parts parts); // Arithmetic.cpp
std::optional<Opcode> findConversion(Parts parts); // Conversion.cpp
std::optional<Opcode> findMemory(Parts parts);     // Memory.cpp
std::optional<Opcode> findCollective(Parts parts); // Collective.cpp
std::optional<Opcode> findControl(Parts parts);    // Control.cpp

} // namespace kvc::ptx

#endif // KVC_PTX_OPCODES_H
