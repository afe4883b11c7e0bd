//===- Control.cpp - bra, ret, bar, griddepcontrol ------------------------===//

#include "ptx/Block.h"
#include "ptx/Opcodes.h"
#include "ptx/Warp.h"
#include "runtime/base/Failure.h"

using namespace kvc::ptx;

/// bar.sync 0, for the block, or bar.sync t + 1, n: for team t of those that the block's
/// threads are in by their number, n in each. Other uses of its 16 barriers we do not know.
static void waitForThreads(Warp &warp, const Instruction &op, uint32_t) {
  using kvc::rt::fail;
  uint32_t number = uint32_t(warp[op.operands[0]][0]);
  warp.team = {};
  if (op.operands.size() == 1) {
    if (number)
      throw fail(KVC_UNSUPPORTED, "the barrier of the block must be 0, got {}",
                 number);
    return;
  }
  uint32_t threads = uint32_t(warp[op.operands[1]][0]);
  uint32_t block = warp.block.shape.block;
  if (threads == 0 || threads % 32 || block % threads)
    throw fail(
        KVC_UNSUPPORTED,
        "teams must be of whole warps and divide the block's {} threads, "
        "got {} threads",
        block, threads);
  uint32_t own = warp.index * 32 / threads + 1;
  if (number != own || number > 15)
    throw fail(KVC_UNSUPPORTED,
               "the barrier of the warp's team must be {} and at most 15, got "
               "{}",
               own, number);
  warp.team = {number, threads};
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
    return Opcode{{waitForThreads, {1, 2}}, 0, Flow::Barrier};
  if (parts.size() == 2 && parts[0] == "griddepcontrol") {
    if (parts[1] == "wait")
      return Opcode{{waitForLaunches, 0}, 0};
    if (parts[1] == "launch_dependents")
      return Opcode{{nothing, 0}, 0};
  }
  return std::nullopt;
}
