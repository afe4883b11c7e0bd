//===- Cards.cpp ----------------------------------------------------------===//

#include "ptx/profile/Cards.h"

#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::ptx;

// The source of each is in docs/cost-model.md.

/// The processor of H100 and H200, as `kvc-run measure-card` found it in an H200.
static constexpr Card hopper(const char *name, double dramBytes) {
  return {.name = name,
          .chip = "sm_90",
          .multiprocessors = 132,
          .clock = 1.98e9,
          .dramBytes = dramBytes,
          .l2Bytes = 8.6e12,
          .l2Capacity = 50 << 20,
          .l1Capacity = 256 << 10,
          .mostShared = 227 << 10,
          .matrixClocks = 6.77,
          .matrixPeak = 790e12,
          .graph = 4.7e-6,
          .launch = 0.68e-6,
          .earlyLaunch = 0.57e-6,
          .start = 1.3e-6};
}

static constexpr Card table[] = {
    hopper("h100", 2.85e12),
    hopper("h200", 3.9e12),
    {.name = "a100",
     .chip = "sm_80",
     .multiprocessors = 108,
     .clock = 1.41e9,
     .dramBytes = 1.73e12,
     .l2Bytes = 4.0e12,
     .l2Capacity = 40 << 20,
     .l1Capacity = 192 << 10,
     .mostShared = 163 << 10,
     .matrixClocks = 8,
     .matrixPeak = 280e12,
     .graph = 5e-6,
     .launch = 1e-6,
     .earlyLaunch = 1e-6,
     .start = 1.3e-6},
};

std::span<const Card> kvc::ptx::cards() { return table; }

const Card &kvc::ptx::findCard(const std::string &name) {
  std::string names;
  for (const Card &card : table) {
    if (name == card.name)
      return card;
    names += (names.empty() ? "" : ", ") + std::string(card.name);
  }
  throw rt::fail(KVC_BAD_ARGUMENT, "card must be one of {}, got '{}'", names,
                 rt::excerpt(name));
}

uint32_t kvc::ptx::residentBlocks(const Card &card, uint32_t threads,
                                  uint32_t registers, uint32_t sharedBytes) {
  // Registers are given out 256 to a warp at a time, shared memory with 1 KiB
  // of the system's own a block.
  uint32_t warps = (threads + 31) / 32;
  uint32_t perWarp = (std::max(registers, 1u) * 32 + 255) / 256 * 256;
  uint32_t blocks = std::min({65536 / (perWarp * warps), 64 / warps, 32u,
                              card.mostShared / (sharedBytes + 1024)});
  return std::max(blocks, 1u);
}
