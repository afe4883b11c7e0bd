//===- BulkCopies.cpp - cp.async.bulk.tensor, mbarrier --------------------===//

#include "ptx/Block.h"
#include "ptx/GlobalMemory.h"
#include "ptx/Lanewise.h"
#include "ptx/Opcodes.h"
#include "ptx/SharedMatrix.h"
#include "ptx/TensorMap.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <cstring>

using namespace kvc::ptx;
using kvc::rt::BoxedTensor;
using kvc::rt::fail;

namespace {

void make(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    warp.block.mbarriers.make(addressOf(warp, op.operands[0], lane),
                              uint32_t(warp[op.operands[1]][lane]),
                              accessOf(warp, lane));
  });
}

void arrive(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    warp.block.mbarriers.arrive(addressOf(warp, op.operands[0], lane),
                                uint32_t(warp[op.operands[1]][lane]),
                                accessOf(warp, lane));
  });
}

void wait(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    bool over = warp.block.mbarriers.over(addressOf(warp, op.operands[0], lane),
                                          uint32_t(warp[op.operands[1]][lane]),
                                          accessOf(warp, lane));
    warp.row(op.results[0])[lane] = over;
    warp.polls |= !over;
  });
}

/// Operands: to, the map, four coordinates, the mbarrier. Its bytes are read and land when it
/// is asked for; who reads them must have seen that they have.
void copy(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    Block &block = warp.block;
    const Access access = accessOf(warp, lane);
    BoxedTensor tensor = tensorOf(
        reinterpret_cast<const void *>(addressOf(warp, op.operands[1], lane)));
    std::array<int32_t, 4> at;
    for (size_t i = 0; i < at.size(); ++i)
      at[i] = int32_t(warp[op.operands[2 + i]][lane]);
    if (at[0] % int32_t(BoxedTensor::columns))
      throw fail(KVC_UNSUPPORTED,
                 "a box must begin at a multiple of {} columns, got {}",
                 BoxedTensor::columns, at[0]);
    uint64_t to = addressOf(warp, op.operands[0], lane),
             arrival = addressOf(warp, op.operands[6], lane);
    constexpr uint32_t piece = 16, row = BoxedTensor::columns * 2;
    if (to % (8 * row))
      throw fail(
          KVC_INTERNAL_ERROR,
          "a box of swizzle {} must go to a multiple of {} bytes, got {}", row,
          8 * row, to);
    uint32_t phase = block.mbarriers.phaseFor(arrival, access);
    forRowsOfBox(tensor, at, [&](uint32_t i, uint64_t from) {
      for (uint32_t part = 0; part < row; part += piece) {
        std::array<std::byte, piece> value = {};
        if (from)
          std::memcpy(value.data(), globalAt(warp, from + part, piece, lane),
                      piece);
        block.shared.bring(swizzled(uint32_t(to) + i * row + part, row), piece,
                           value.data(), access, phase);
      }
    });
    block.mbarriers.landed(arrival, uint64_t(tensor.rows) * row);
  });
}

} // namespace

std::optional<Opcode> kvc::ptx::findBulkCopy(Parts parts) {
  auto is = [&](std::initializer_list<std::string_view> other) {
    return std::ranges::equal(parts, other);
  };
  if (is({"mbarrier", "init", "shared::cta", "b64"}))
    return Opcode{{make, 2}, 0};
  if (is({"mbarrier", "arrive", "expect_tx", "shared::cta", "b64"}))
    return Opcode{{arrive, 2}, 1};
  if (is({"mbarrier", "try_wait", "parity", "shared::cta", "b64"}))
    return Opcode{{wait, 2}, 1};
  if (is({"cp", "async", "bulk", "tensor", "4d", "shared::cluster", "global",
          "tile", "mbarrier::complete_tx::bytes"}))
    return Opcode{{copy, 7}, 0};
  return std::nullopt;
}
