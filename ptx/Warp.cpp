//===- Warp.cpp -----------------------------------------------------------===//

#include "ptx/Warp.h"

#include "ptx/Block.h"
#include "ptx/GlobalMemory.h"
#include "ptx/profile/BlockProfile.h"
#include "runtime/base/Failure.h"

#include <utility>

using namespace kvc::ptx;
using kvc::rt::fail;

/// What nobody has written shows.
static const Lanes &unwritten() {
  static const Lanes lanes = [] {
    Lanes all;
    all.fill(~0ull);
    return all;
  }();
  return lanes;
}

Warp::Warp(Block &block, const Kernel &kernel, uint32_t index, uint32_t lanes)
    : block(block), index(index), products(kernel), kernel(kernel),
      rows(kernel.rows(), unwritten()),
      ways{{0, lanes, uint32_t(kernel.code.size())}}, alive(lanes) {
  waited = kernel.waits ? 0 : ~0u;
  size_t at = 0;
  for (uint64_t value : kernel.constants)
    rows[at++].fill(value);
  for (auto [which, dimension] : kernel.specials)
    rows[at++] = block.special(which, dimension, index);
}

/// What a thread touches between its arrival and the wait is ordered neither way.
static void checkBetween(const Warp &warp) {
  if (warp.arrived)
    throw fail(KVC_UNSUPPORTED,
               "memory must not be touched between barrier.cluster.arrive and "
               "barrier.cluster.wait");
}

std::byte *kvc::ptx::globalAt(Warp &warp, uint64_t address, uint32_t bytes,
                              uint32_t lane) {
  checkBetween(warp);
  if (!(warp.waited >> lane & 1))
    throw fail(KVC_INTERNAL_ERROR,
               "thread {} must not use global memory before "
               "griddepcontrol.wait",
               warp.index * 32 + lane);
  return warp.block.global.at(address, bytes);
}

Access kvc::ptx::accessOf(const Warp &warp, uint32_t lane) {
  checkBetween(warp);
  return {warp.index * 32 + lane, warp.block.shared.barriers, warp.teamBarriers,
          warp.syncs};
}

void Warp::branch(const Instruction &op, uint32_t taken) {
  Way &way = ways.back();
  uint32_t lanes = way.lanes & alive, others = lanes & ~taken;
  uint32_t behind = way.at + 1;
  if (!others) {
    way.at = op.target;
  } else if (!taken) {
    way.at = behind;
  } else {
    way.at = op.join;
    ways.push_back({behind, others, op.join});
    ways.push_back({op.target, taken, op.join});
  }
}

Warp::State Warp::run(uint64_t most) {
  while (true) {
    if (!most--)
      return State::Ready;
    while (!ways.empty() &&
           (ways.back().at == ways.back().join || !(ways.back().lanes & alive)))
      ways.pop_back();
    if (ways.empty())
      return State::Done;
    Way &way = ways.back();
    const Instruction &op = kernel.code[way.at];
    uint32_t lanes = way.lanes & alive;
    if (op.guarded) {
      const Lanes &guard = rows[op.guard.row];
      uint32_t holds = 0;
      for (uint32_t lane = 0; lane < 32; ++lane)
        holds |= uint32_t(guard[lane] & 1) << lane;
      lanes &= op.guard.negated ? ~holds : holds;
    }
    if (block.profile)
      block.profile->instruction(*this, op, lanes);
    try {
      if (kernel.keeps && lanes && !op.keeps)
        products.touch(op);
      switch (op.flow) {
      case Flow::Branch:
        branch(op, lanes);
        continue;
      case Flow::Return:
        if (lanes & ~waited)
          throw fail(KVC_INTERNAL_ERROR,
                     "lanes {:#x} must not end before griddepcontrol.wait",
                     lanes & ~waited);
        alive &= ~lanes;
        break;
      case Flow::Barrier:
      case Flow::ClusterBarrier:
      case Flow::Warp:
        if (lanes && lanes != alive)
          throw fail(KVC_INTERNAL_ERROR,
                     "all lanes of the warp must come together, got {:#x} of "
                     "{:#x}",
                     lanes, alive);
        if (lanes && op.run)
          op.run(*this, op, lanes);
        break;
      case Flow::Next:
        if (lanes)
          op.run(*this, op, lanes);
        break;
      }
    } catch (const kvc::rt::Failure &failure) {
      auto [x, y, z] = block.at;
      throw fail(failure.status,
                 "kernel '{}', block ({}, {}, {}), warp {}, PTX line {}, '{}': "
                 "{}",
                 kernel.name, x, y, z, index, op.line, op.opcode,
                 failure.what());
    }
    ++way.at;
    if (op.flow == Flow::Barrier && lanes)
      return State::AtBarrier;
    if (op.flow == Flow::ClusterBarrier && lanes)
      return State::AtClusterBarrier;
    if (std::exchange(polls, false))
      return State::Polls;
  }
}
