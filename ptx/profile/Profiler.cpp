//===- Profiler.cpp -------------------------------------------------------===//

#include "ptx/profile/Profiler.h"

#include "runtime/base/Failure.h"

#include "emulator/Blocks.h"
#include "ptx/Cluster.h"
#include "ptx/GlobalMemory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

using namespace kvc::ptx;

namespace {

/// `count` of 0 .. extent-1, evenly spread.
std::vector<uint32_t> spread(uint32_t extent, uint32_t count) {
  std::vector<uint32_t> chosen;
  if (!count || count >= extent) {
    for (uint32_t i = 0; i < extent; ++i)
      chosen.push_back(i);
    return chosen;
  }
  for (uint32_t i = 0; i < count; ++i)
    // The middle of each part: of work that grows along a dimension, half of
    // the most is the mean.
    chosen.push_back(uint32_t((2ull * i + 1) * extent / (2ull * count)));
  return chosen;
}

/// Which blocks touched a line's sectors: one, or several.
struct Sharing {
  uint8_t seen = 0, several = 0;
};
using SharedSectors = std::unordered_map<uint64_t, Sharing>;

void add(SharedSectors &all, const Sectors &block) {
  for (auto [line, sectors] : block) {
    Sharing &sharing = all[line];
    sharing.several |= sharing.seen & sectors;
    sharing.seen |= sectors;
  }
}

/// Bytes of an allocation that a launch touched, from what its sampled blocks
/// did: what several of them read is read by all, what one read is its own.
struct Footprint {
  uint64_t bytes = 0; // of the allocation
  double own = 0, common = 0;
  double total(double factor) const {
    double touched = common + own * factor;
    return bytes ? std::min(touched, double(bytes)) : touched;
  }
};

std::map<uint64_t, Footprint> footprints(const SharedSectors &sectors,
                                         const GlobalView &memory) {
  std::map<uint64_t, Footprint> found;
  for (auto [line, sharing] : sectors) {
    auto [first, bytes] = memory.allocation(line * 128);
    Footprint &footprint = found[first];
    footprint.bytes = bytes;
    footprint.common += 32.0 * std::popcount(sharing.several);
    footprint.own +=
        32.0 * std::popcount(uint8_t(sharing.seen & ~sharing.several));
  }
  return found;
}

/// A number near one in fp32, so that what is drawn several times is no tie.
uint32_t nearby(uint32_t word, uint32_t random) {
  constexpr uint32_t lowest = 0xfff, exponent = 0x7f800000;
  uint32_t size = word & exponent;
  return size == 0 || size == exponent ? word : word ^ (random & lowest);
}

/// Where nobody wrote since the memory was allocated, values near those of the last piece
/// that somebody has written. Not from one that is far shorter than the piece before:
/// first tokens, which the first block of a head may have alone, are like no others.
void fillGaps(uint64_t first, uint64_t bytes) {
  constexpr uint32_t nobodys = ~0u;
  auto *words = reinterpret_cast<uint32_t *>(first);
  size_t count = bytes / 4;
  size_t runStart = 0, runEnd = 0; // the last written piece
  std::minstd_rand random(1);
  for (size_t i = 0; i < count;) {
    if (words[i] != nobodys) {
      size_t start = i;
      while (i < count && words[i] != nobodys)
        ++i;
      if (8 * (i - start) >= runEnd - runStart) {
        runStart = start;
        runEnd = i;
      }
      continue;
    }
    size_t gap = i;
    while (gap < count && words[gap] == nobodys)
      ++gap;
    // Far behind the last piece: memory of another buffer, or of none.
    size_t most = runEnd ? std::min(gap, i + (1u << 22)) : i;
    for (; i < most; ++i)
      words[i] =
          nearby(words[runStart + random() % (runEnd - runStart)], random());
    i = gap;
  }
}

} // namespace

/// What the blocks of one launch add up to.
struct Profiler::Launch {
  std::mutex mutex;
  Counters sums;
  std::vector<double> chains; // each block's longest warp's
  SharedSectors reads, writes;

  void add(BlockProfile &block) {
    Counters counters = block.counters();
    std::lock_guard lock(mutex);
    sums += counters;
    chains.push_back(counters.path);
    ::add(reads, block.read());
    ::add(writes, block.written());
  }
};

std::vector<LaunchProfile> Profiler::take() {
  known.clear();
  written.clear();
  return std::exchange(done, {});
}

void Profiler::run(const Kernel &kernel, const LaunchShape &shape,
                   std::span<const std::byte> arguments,
                   const GlobalView &memory, unsigned threads, uint64_t seed) {
  LaunchProfile profile;
  profile.kernel = kernel.name;
  profile.grid = shape.grid;
  profile.threads = shape.block;
  profile.follows = shape.follows;
  profile.sharedBytes = kernel.sharedBytes + shape.sharedBytes;
  uint32_t registers = assumedRegisters;
  if (auto found = options.assembled.find(kernel.name);
      found != options.assembled.end()) {
    profile.assembled = found->second;
    registers = found->second.registers;
  }
  profile.resident =
      residentBlocks(options.card, shape.block, registers, profile.sharedBytes);
  // Behind one that runs in waves a card's launch is not early (CudaDevice.cpp).
  profile.early = shape.follows && kernel.waits && !done.empty() &&
                  done.back().blocks <= uint64_t(done.back().resident) *
                                            options.card.multiprocessors;
  // Of clusters, as all blocks of one run.
  const std::array<uint32_t, 3> grid = clustersOf(kernel, shape);
  std::array<std::vector<uint32_t>, 3> chosen;
  std::array<uint32_t, 3> runs;
  profile.blocks = profile.ran = blocksOfCluster(kernel);
  for (uint32_t extent : grid)
    profile.blocks *= extent;
  bool whole = profile.blocks <= wholeGrid || wholes.count(kernel.name);
  for (int i = 0; i < 3; ++i) {
    chosen[i] = spread(grid[i], whole ? 0 : options.blocksPerDimension);
    runs[i] = uint32_t(chosen[i].size());
    profile.ran *= runs[i];
  }
  if (!profile.ran)
    return;

  // What fits into L2 and was touched before is there; so is what a kernel of
  // the same call has written, since intermediates are small.
  uint64_t most = options.card.l2Capacity / 2;
  auto inL2 = [&](uint64_t line) {
    auto [first, bytes] = memory.allocation(line * 128);
    return written.count(first) || (bytes <= most && known.count(first));
  };
  uint64_t l1 = options.card.l1Capacity / profile.resident;
  l1 -= std::min<uint64_t>(l1 - 4096, profile.sharedBytes);
  Launch launch;
  // What blocks along x share, weights say, comes from DRAM for the first of
  // them: these run first, and the others know what they have read.
  Sectors byFirst;
  auto readBefore = [&](uint64_t line) {
    return byFirst.count(line) || inL2(line);
  };
  uint32_t warps = (shape.block + 31) / 32;
  auto runBlocksFrom = [&](uint32_t from, uint32_t to) {
    rt::runBlocks({to - from, runs[1], runs[2]}, threads,
                  [&]() -> rt::RunBlock {
                    return [&](uint32_t x, uint32_t y, uint32_t z) {
                      std::deque<BlockProfile> watches;
                      std::vector<BlockProfile *> each;
                      for (uint32_t i = 0; i < blocksOfCluster(kernel); ++i)
                        each.push_back(&watches.emplace_back(
                            options.card, kernel, warps, l1, readBefore));
                      Cluster(kernel, shape, arguments, memory,
                              {chosen[0][from + x], chosen[1][y], chosen[2][z]},
                              seed, each)
                          .run();
                      for (BlockProfile &watch : watches)
                        launch.add(watch);
                    };
                  });
  };
  // The first blocks set to 0 what blocks of such kernels add to.
  if (!whole && !wholes.empty())
    rt::runBlocks({1, grid[1], grid[2]}, threads, [&]() -> rt::RunBlock {
      return [&](uint32_t, uint32_t y, uint32_t z) {
        Cluster(kernel, shape, arguments, memory, {0, y, z}, seed).run();
      };
    });
  runBlocksFrom(0, 1);
  for (auto [line, sharing] : launch.reads)
    byFirst[line] = sharing.seen;
  runBlocksFrom(1, runs[0]);

  double factor = double(profile.blocks) / double(profile.ran);
  profile.counters = launch.sums;
  profile.counters.scale(factor);
  profile.longestPath = std::ranges::max(launch.chains);
  auto works = [&](double chain) { return chain >= profile.longestPath / 16; };
  profile.working = uint64_t(
      std::ceil(factor * double(std::ranges::count_if(launch.chains, works))));
  for (auto &[first, footprint] : footprints(launch.reads, memory)) {
    double bytes = footprint.total(factor);
    profile.distinctRead += bytes;
    if (!inL2(first / 128))
      profile.dramRead += bytes;
  }
  std::map<uint64_t, Footprint> stores = footprints(launch.writes, memory);
  for (auto &[first, footprint] : stores) {
    profile.dramWritten += footprint.total(factor);
    if (factor > 1 && footprint.bytes)
      fillGaps(first, footprint.bytes);
  }
  for (auto &[first, footprint] : footprints(launch.reads, memory))
    known.insert(first);
  for (auto &[first, footprint] : stores)
    written.insert(first);
  done.push_back(std::move(profile));
}
