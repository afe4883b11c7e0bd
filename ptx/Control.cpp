//===- Control.cpp - bra, ret, bar, griddepcontrol ------------------------===//

#include "ptx/Opcodes.h"
#include "ptx/Warp.h"
#include "runtime/base/Failure.h"

using namespace kvc::ptx;

/// bar.sync 0: of the 16 barriers that a block has, we know the first.
static void checkBarrier(Warp &warp, const Instruction &op, uint32_t) {
  if (warp[op.operands[0]][0] != 0)
    throw kvc::rt::fail(KVC_UNSUPPORTED,
                        "the barrier must be 0 and for the whole block");
}

/// Launches run one after the other here: what they would wait for has ended.
static void waitForLaunches(Warp &warp, const Instruction &, uint32_t lanes) {
  warp.waited |= lanes;
}

static void nothing(Warp &, const Instruction &, uint32_t) {}

std::optional<Opcode> kvc::ptx::findControl(Parts parts) {
  if (parts[0] == "bra" &&
      (parts.size() == 1 || (parts.size() == 2 && parts[1] == "uni")))
    return Opcode{{}, 0, Flow::Branch};
  if (parts.size() == 1 && parts[0] == "ret")
    return Opcode{{}, 0, Flow::Return};
  if (parts.size() == 2 && parts[0] == "bar" && parts[1] == "sync")
    return Opcode{{checkBarrier, 1}, 0, Flow::Barrier};
  if (parts.size() == 2 && parts[0] == "griddepcontrol") {
    if (parts[1] == "wait")
      return Opcode{{waitForLaunches, 0}, 0};
    if (parts[1] == "launch_dependents")
      return Opcode{{nothing, 0}, 0};
  }
  return std::nullopt;
}
