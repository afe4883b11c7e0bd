//===- BulkCopies.cpp - cp.async.bulk.tensor, mbarrier --------------------===//

#include "ptx/BulkCopies.h"

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

/// Its bytes are read and land when it is asked for; who reads them must have seen that they
/// have.
void copy(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    Block &block = warp.block;
    const Access access = accessOf(warp, lane);
    const BoxCopy copy(warp, op, lane);
    if (copy.from[0] % int32_t(BoxedTensor::columns))
      throw fail(KVC_UNSUPPORTED,
                 "a box must begin at a multiple of {} columns, got {}",
                 BoxedTensor::columns, copy.from[0]);
    constexpr uint32_t piece = 16, row = BoxedTensor::rowBytes;
    if (copy.to % (8 * row))
      throw fail(
          KVC_INTERNAL_ERROR,
          "a box of swizzle {} must go to a multiple of {} bytes, got {}", row,
          8 * row, copy.to);
    uint32_t phase = block.mbarriers.phaseFor(copy.arrival, access);
    forRowsOfBox(copy.tensor, copy.from, [&](uint32_t i, uint64_t from) {
      for (uint32_t part = 0; part < row; part += piece) {
        std::array<std::byte, piece> value = {};
        if (from)
          std::memcpy(value.data(), globalAt(warp, from + part, piece, lane),
                      piece);
        block.shared.bring(swizzled(uint32_t(copy.to) + i * row + part, row),
                           piece, value.data(), access, phase);
      }
    });
    block.mbarriers.landed(copy.arrival, copy.bytes());
  });
}

} // namespace

BoxCopy::BoxCopy(const Warp &warp, const Instruction &op, uint32_t lane)
    : to(addressOf(warp, op.operands[0], lane)),
      tensor(tensorOf(reinterpret_cast<const void *>(
          addressOf(warp, op.operands[1], lane)))),
      arrival(addressOf(warp, op.operands[6], lane)) {
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = int32_t(warp[op.operands[2 + i]][lane]);
}

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
