//===- Collective.cpp - what the lanes of a warp do together --------------===//

#include "emulator/Mma.h"
#include "ptx/Block.h"
#include "ptx/Lanewise.h"
#include "ptx/Opcodes.h"
#include "runtime/base/Failure.h"

#include <cstring>

using namespace kvc::ptx;
using kvc::rt::fail;

namespace {

/// All our instructions name the whole warp.
void checkMembers(const Warp &warp, const Operand &members, uint32_t lanes) {
  uint32_t named = uint32_t(warp[members][std::countr_zero(lanes)]);
  if ((named & lanes) != lanes)
    throw fail(KVC_INTERNAL_ERROR,
               "the member mask must name every lane that comes, got {:#x} "
               "and lanes {:#x}",
               named, lanes);
}

enum class Way { Up, Down, Butterfly, Index };

/// PTX ISA, shfl.sync: the lane that is read, or its own outside the segment.
template <Way way>
void shuffle(Warp &warp, const Instruction &op, uint32_t lanes) {
  checkMembers(warp, op.operands[3], lanes);
  const Lanes from = warp[op.operands[0]];
  forLanes(lanes, [&](uint32_t lane) {
    uint32_t distance = warp[op.operands[1]][lane] & 31;
    uint32_t clamp = warp[op.operands[2]][lane] & 31;
    uint32_t segment = warp[op.operands[2]][lane] >> 8 & 31;
    uint32_t last = (lane & segment) | (clamp & ~segment);
    uint32_t source;
    bool inside;
    if constexpr (way == Way::Up) {
      source = lane - distance;
      inside = int32_t(source) >= int32_t(last);
    } else {
      source = way == Way::Down ? lane + distance
               : way == Way::Butterfly
                   ? lane ^ distance
                   : (lane & segment) | (distance & ~segment);
      inside = source <= last;
    }
    if (!inside)
      source = lane;
    if (!(lanes >> source & 1))
      throw fail(KVC_INTERNAL_ERROR,
                 "lane {} reads lane {}, which does not run", lane, source);
    warp.row(op.results[0])[lane] = from[source];
    if (op.results.size() > 1)
      warp.row(op.results[1])[lane] = inside;
  });
}

uint32_t votes(const Warp &warp, const Operand &operand, uint32_t lanes) {
  uint32_t holds = 0;
  forLanes(lanes, [&](uint32_t lane) {
    holds |= uint32_t((warp[operand][lane] & 1) != operand.negated) << lane;
  });
  return holds;
}

enum class Vote { Ballot, Any, All };

template <Vote vote>
void cast(Warp &warp, const Instruction &op, uint32_t lanes) {
  checkMembers(warp, op.operands[1], lanes);
  uint32_t holds = votes(warp, op.operands[0], lanes);
  uint32_t result = vote == Vote::Ballot ? holds
                    : vote == Vote::Any  ? holds != 0
                                         : holds == lanes;
  forLanes(lanes,
           [&](uint32_t lane) { warp.row(op.results[0])[lane] = result; });
}

/// PTX ISA, redux.sync: every lane gets the sum, of 32 bits.
void addLanes(Warp &warp, const Instruction &op, uint32_t lanes) {
  checkMembers(warp, op.operands[1], lanes);
  uint32_t sum = 0;
  forLanes(lanes, [&](uint32_t lane) {
    sum += uint32_t(warp[op.operands[0]][lane]);
  });
  forLanes(lanes, [&](uint32_t lane) { warp.row(op.results[0])[lane] = sum; });
}

void synchronize(Warp &warp, const Instruction &op, uint32_t lanes) {
  checkMembers(warp, op.operands[0], lanes);
  ++warp.syncs;
}

/// mma.sync.aligned.m16n8k16.row.col.f32.T.T.f32: D = A B + C.
template <bool bf16>
void multiply(Warp &warp, const Instruction &op, uint32_t lanes) {
  if (lanes != ~0u)
    throw fail(KVC_INTERNAL_ERROR, "all 32 lanes must run, got {:#x}", lanes);
  uint32_t a[32][4], b[32][2];
  float c[32][4];
  const uint32_t *left[32], *right[32];
  float *sums[32];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i)
      a[lane][i] = uint32_t(warp[op.operands[i]][lane]);
    for (int i = 0; i < 2; ++i)
      b[lane][i] = uint32_t(warp[op.operands[4 + i]][lane]);
    for (int i = 0; i < 4; ++i)
      c[lane][i] = valueOf<float>(warp[op.operands[6 + i]][lane]);
    left[lane] = a[lane], right[lane] = b[lane], sums[lane] = c[lane];
  }
  kvc::rt::warpMma(left, right, sums, 1, bf16);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      warp.row(op.results[i])[lane] = bitsOf(c[lane][i]);
}

/// ldmatrix.sync.aligned.m8n8.xN.b16: lane 8 m + i has the address of row i of matrix
/// m; lane l gets elements 2 (l % 4) + {0, 1} of its row l / 4, or of that column.
template <uint32_t matrices, bool transposed>
void loadMatrices(Warp &warp, const Instruction &op, uint32_t lanes) {
  if (lanes != ~0u)
    throw fail(KVC_INTERNAL_ERROR, "all 32 lanes must run, got {:#x}", lanes);
  for (uint32_t m = 0; m < matrices; ++m) {
    uint16_t rows[8][8];
    for (uint32_t i = 0; i < 8; ++i)
      std::memcpy(
          rows[i],
          warp.block.shared.read(addressOf(warp, op.operands[0], 8 * m + i), 16,
                                 accessOf(warp, 8 * m + i)),
          16);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t i = lane / 4, j = lane % 4 * 2;
      uint16_t low = transposed ? rows[j][i] : rows[i][j];
      uint16_t high = transposed ? rows[j + 1][i] : rows[i][j + 1];
      warp.row(op.results[m])[lane] = low | uint32_t(high) << 16;
    }
  }
}

template <bool transposed> Handler findLoad(std::string_view count) {
  return count == "x1"   ? loadMatrices<1, transposed>
         : count == "x2" ? loadMatrices<2, transposed>
         : count == "x4" ? loadMatrices<4, transposed>
                         : nullptr;
}

bool are(Parts parts, std::initializer_list<std::string_view> want) {
  return std::equal(parts.begin(), parts.end(), want.begin(), want.end());
}

} // namespace

std::optional<Opcode> kvc::ptx::findCollective(Parts parts) {
  auto warp = [](Handler run, size_t operands, Count results = 1) {
    return Opcode{{run, operands}, results, Flow::Warp};
  };
  auto vote = [](Handler run) { return Opcode{{run, 2}, 1, Flow::Warp, true}; };
  if (are(parts, {"shfl", "sync", "up", "b32"}))
    return warp(shuffle<Way::Up>, 4, {1, 2});
  if (are(parts, {"shfl", "sync", "down", "b32"}))
    return warp(shuffle<Way::Down>, 4, {1, 2});
  if (are(parts, {"shfl", "sync", "bfly", "b32"}))
    return warp(shuffle<Way::Butterfly>, 4, {1, 2});
  if (are(parts, {"shfl", "sync", "idx", "b32"}))
    return warp(shuffle<Way::Index>, 4, {1, 2});
  if (are(parts, {"vote", "sync", "ballot", "b32"}))
    return vote(cast<Vote::Ballot>);
  if (are(parts, {"vote", "sync", "any", "pred"}))
    return vote(cast<Vote::Any>);
  if (are(parts, {"vote", "sync", "all", "pred"}))
    return vote(cast<Vote::All>);
  if (are(parts, {"redux", "sync", "add", "s32"}) ||
      are(parts, {"redux", "sync", "add", "u32"}))
    return warp(addLanes, 2);
  if (parts.size() >= 7 &&
      are(parts.first(4), {"ldmatrix", "sync", "aligned", "m8n8"})) {
    bool transposed = parts[5] == "trans";
    Parts rest = parts.subspan(transposed ? 6 : 5);
    Handler run =
        transposed ? findLoad<true>(parts[4]) : findLoad<false>(parts[4]);
    if (run && are(rest, {"shared", "b16"}))
      return warp(run, 1, size_t(parts[4][1] - '0'));
  }
  if (are(parts, {"bar", "warp", "sync"}))
    return warp(synchronize, 1, 0);
  if (are(parts, {"mma", "sync", "aligned", "m16n8k16", "row", "col", "f32",
                  "bf16", "bf16", "f32"}))
    return warp(multiply<true>, 10, 4);
  if (are(parts, {"mma", "sync", "aligned", "m16n8k16", "row", "col", "f32",
                  "f16", "f16", "f32"}))
    return warp(multiply<false>, 10, 4);
  return std::nullopt;
}
