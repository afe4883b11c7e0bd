//===- Lanewise.h - instructions that each lane runs for itself -----------===//

#ifndef KVC_PTX_LANEWISE_H
#define KVC_PTX_LANEWISE_H

#include "ptx/Opcodes.h"
#include "ptx/Types.h"
#include "ptx/Warp.h"

#include <utility>

namespace kvc::ptx {

/// Calls body(lane) for every bit of `lanes`.
template <typename Each> void forLanes(uint32_t lanes, Each body) {
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1)
      body(lane);
}

/// result = f(operands), all operands of type T.
template <typename T, auto f> Body lanewise() {
  constexpr size_t operands = requires { f(T(), T(), T()); } ? 3
                              : requires { f(T(), T()); }    ? 2
                                                             : 1;
  auto run = [](Warp &warp, const Instruction &op, uint32_t lanes) {
    Lanes &to = warp.row(op.results[0]);
    if constexpr (requires { f(T(), T(), T()); }) {
      const Lanes &a = warp[op.operands[0]], &b = warp[op.operands[1]],
                  &c = warp[op.operands[2]];
      forLanes(lanes, [&](uint32_t i) {
        to[i] = bitsOf(f(valueOf<T>(a[i]), valueOf<T>(b[i]), valueOf<T>(c[i])));
      });
    } else if constexpr (requires { f(T(), T()); }) {
      const Lanes &a = warp[op.operands[0]], &b = warp[op.operands[1]];
      forLanes(lanes, [&](uint32_t i) {
        to[i] = bitsOf(f(valueOf<T>(a[i]), valueOf<T>(b[i])));
      });
    } else {
      const Lanes &a = warp[op.operands[0]];
      forLanes(lanes, [&](uint32_t i) { to[i] = bitsOf(f(valueOf<T>(a[i]))); });
    }
  };
  return {run, operands};
}

} // namespace kvc::ptx

#endif // KVC_PTX_LANEWISE_H
