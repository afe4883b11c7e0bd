//===- Profiler.h - what the launches of a device take --------------------===//
//
// Give one to a PTX device (PTXDevice.h): every launch is then counted. All blocks
// may run, or a few of each launch: a sampled launch leaves gaps in what it should
// have written, which are filled with values near those that were written beside
// them, so that later kernels find numbers of the right kind. Results of a sampled
// run are meant for nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_PROFILE_PROFILER_H
#define KVC_PTX_PROFILE_PROFILER_H

#include "ptx/Block.h"
#include "ptx/profile/BlockProfile.h"

#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace kvc::ptx {

/// How ptxas compiled a kernel.
struct Assembled {
  uint32_t registers = 0;
  uint32_t spilledBytes = 0;
};

/// A launch, as if all its blocks had been watched.
struct LaunchProfile {
  std::string kernel;
  std::array<uint32_t, 3> grid;
  uint32_t threads = 0; // of a block
  bool follows = false; // LaunchShape
  bool early = false; // it may begin while the launch in front of it still runs
  uint64_t blocks = 0, ran = 0;
  /// How many have work: their chain is not less than a sixteenth of the longest one.
  uint64_t working = 0;
  uint32_t sharedBytes = 0;
  std::optional<Assembled> assembled; // none without ptxas
  uint32_t resident = 0;              // blocks that an SM holds at once
  Counters counters;
  double longestPath = 0;               // clocks, of all warps that ran
  double dramRead = 0, dramWritten = 0; // bytes
  double distinctRead = 0;              // bytes, wherever they came from
};

class Profiler {
public:
  struct Options {
    const Card &card;
    /// Indices that run along each dimension of a grid, evenly spread; 0: all.
    /// Grids of up to `wholeGrid` blocks run whole.
    uint32_t blocksPerDimension = 0;
    /// Registers by kernel; kernels that are not there get `assumedRegisters`.
    std::map<std::string, Assembled> assembled;
  };
  static constexpr uint32_t assumedRegisters = 128;
  static constexpr uint64_t wholeGrid = 32;

  explicit Profiler(Options options) : options(std::move(options)) {}

  /// All blocks of a kernel are to run: what they add up, kernels behind it
  /// need. Of others the first along x run too, unwatched: they clear it.
  void runWhole(const std::string &kernel) { wholes.insert(kernel); }

  /// Runs a launch instead of the machine.
  void run(const Kernel &kernel, const LaunchShape &shape,
           std::span<const std::byte> arguments, const GlobalView &memory,
           unsigned threads, uint64_t seed);

  const Card &card() const { return options.card; }
  const std::vector<LaunchProfile> &launches() const { return done; }
  /// The launches so far, which are forgotten: what comes is another call's, and finds
  /// nothing in L2 of what these read and wrote.
  std::vector<LaunchProfile> take();

private:
  struct Launch;
  Options options;
  std::set<std::string> wholes;
  std::vector<LaunchProfile> done;
  /// First bytes of allocations that an earlier launch has read or written.
  std::set<uint64_t> known, written;
};

} // namespace kvc::ptx

#endif // KVC_PTX_PROFILE_PROFILER_H
