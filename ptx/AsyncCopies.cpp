//===- AsyncCopies.cpp - cp.async -----------------------------------------===//

#include "ptx/AsyncCopies.h"

#include "ptx/Block.h"
#include "ptx/GlobalMemory.h"
#include "ptx/Lanewise.h"
#include "ptx/Opcodes.h"
#include "runtime/base/Failure.h"

#include <cstring>

using namespace kvc::ptx;
using kvc::rt::fail;

namespace {

/// `only16`: .cg, which goes past L1.
template <bool only16>
void begin(Warp &warp, const Instruction &op, uint32_t lanes) {
  uint64_t bytes = warp[op.operands[2]][0];
  if (bytes != 16 && (only16 || (bytes != 4 && bytes != 8)))
    throw fail(KVC_INTERNAL_ERROR, "must copy {} bytes, got {}",
               only16 ? "16" : "4, 8 or 16", bytes);
  forLanes(lanes, [&](uint32_t lane) {
    AsyncCopy copy = {
        addressOf(warp, op.operands[0], lane), uint32_t(bytes), {}};
    std::memcpy(
        copy.value.data(),
        globalAt(warp, addressOf(warp, op.operands[1], lane), copy.bytes, lane),
        bytes);
    std::array<std::byte, 16> nothing;
    nothing.fill(std::byte(0xff));
    warp.block.shared.write(copy.to, copy.bytes, nothing.data(),
                            accessOf(warp, lane));
    warp.copies[lane].begin(copy);
  });
}

void commit(Warp &warp, const Instruction &, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) { warp.copies[lane].commit(); });
}

template <bool all>
void wait(Warp &warp, const Instruction &op, uint32_t lanes) {
  forLanes(lanes, [&](uint32_t lane) {
    uint64_t pending = 0;
    if constexpr (all)
      warp.copies[lane].commit();
    else
      pending = warp[op.operands[0]][lane];
    warp.copies[lane].wait(pending, [&](const AsyncCopy &copy) {
      warp.block.shared.write(copy.to, copy.bytes, copy.value.data(),
                              accessOf(warp, lane));
    });
  });
}

} // namespace

std::optional<Opcode> kvc::ptx::findAsyncCopy(Parts parts) {
  if (parts.size() < 3 || parts[0] != "cp" || parts[1] != "async")
    return std::nullopt;
  if (parts.size() == 5 && parts[3] == "shared" && parts[4] == "global") {
    if (parts[2] == "cg")
      return Opcode{{begin<true>, 3}, 0};
    if (parts[2] == "ca")
      return Opcode{{begin<false>, 3}, 0};
  }
  if (parts.size() != 3)
    return std::nullopt;
  if (parts[2] == "commit_group")
    return Opcode{{commit, 0}, 0};
  if (parts[2] == "wait_group")
    return Opcode{{wait<false>, 1}, 0};
  if (parts[2] == "wait_all")
    return Opcode{{wait<true>, 0}, 0};
  return std::nullopt;
}
