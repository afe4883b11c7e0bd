//===- BlockProfile.h - what one thread block takes -----------------------===//
//
// Watches the warps of a block, instruction by instruction. Beside sums it keeps
// a clock for each warp, as if that warp were alone on its SM: within a basic
// block instructions wait for their operands only, since ptxas may order them as
// it likes; a branch waits for what the basic block had to issue. Barriers bring
// the clocks of a block together.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_PROFILE_BLOCKPROFILE_H
#define KVC_PTX_PROFILE_BLOCKPROFILE_H

#include "ptx/Program.h"
#include "ptx/profile/Cards.h"
#include "ptx/profile/Counters.h"

#include <deque>
#include <functional>
#include <span>
#include <unordered_map>

namespace kvc::ptx {

class Warp;
struct BoxCopy; // ptx/BulkCopies.h

/// Lines of 128 bytes by their address over 128, and which of their four sectors
/// of 32 bytes.
using Sectors = std::unordered_map<uint64_t, uint8_t>;

/// The first-level cache of a block: sets of 8 lines, least recently used out.
class FirstLevel {
public:
  explicit FirstLevel(uint64_t bytes);
  /// Sectors of a line that were not there; they are now.
  uint8_t miss(uint64_t line, uint8_t sectors);
  void forget() { lines.assign(lines.size(), Line()); }

private:
  static constexpr size_t ways = 8;
  struct Line {
    uint64_t line = ~0ull, used = 0;
    uint8_t sectors = 0;
  };
  std::vector<Line> lines;
  size_t sets;
  uint64_t now = 0;
};

class BlockProfile {
public:
  /// `l1Bytes` of cache for the block; `inL2` says of a line whether an earlier
  /// kernel left it there.
  BlockProfile(const Card &card, const Kernel &kernel, uint32_t warps,
               uint64_t l1Bytes, std::function<bool(uint64_t)> inL2);

  /// Before `lanes` of a warp run an instruction (none: its guard is false).
  void instruction(const Warp &warp, const Instruction &op, uint32_t lanes);
  /// So many warps have met.
  void barrier(uint32_t first, uint32_t count);
  /// When the last warp has come to where all wait.
  double latest() const { return latestOf(clocks); }
  /// The cluster's blocks have met, the last of them at `last`: what they have written is in
  /// L2, and L1 has forgotten what it had.
  void clusterBarrier(double last);

  /// Once all warps are done.
  Counters counters();
  const Sectors &read() const { return reads; }
  const Sectors &written() const { return writes; }

private:
  struct Clock {
    std::vector<double> ready; // by row
    double base = 0;           // of the running basic block
    double latest = 0;         // issue of its last instruction
    double issues = 0, passes = 0, matrix = 0, special = 0;
    double stored = 0;           // when shared stores are done
    double landing = 0;          // of the copies that no group has yet
    std::deque<double> groups;   // when they land
    double multiplied = 0;       // when the products by wgmma so far are over
    std::deque<double> products; // the same of their groups
  };

  /// What one instruction does at the addresses of one of its operands.
  struct Place {
    const Warp &warp;
    const Operand &operand;
    uint32_t lanes;
    Traffic traffic;
    uint32_t bytes; // a lane
    double latency;
    uint64_t operator()(uint32_t lane) const;
  };
  /// Clocks until it is done.
  double access(const Warp &warp, const Instruction &op, uint32_t lanes,
                Clock &clock);
  double global(const Place &place, Clock &clock);
  double shared(const Place &place, Clock &clock);
  /// cp.async: begins at `at`.
  void copy(const Warp &warp, const Instruction &op, uint32_t lanes,
            Clock &clock, double at);
  /// cp.async.bulk.tensor: begins at `at`.
  void bulkCopy(const BoxCopy &copy, double at);
  void endBasicBlock(Clock &clock, double more);
  /// Of warps that meet: when the last one comes, and from when they go on.
  static double latestOf(std::span<const Clock> met);
  static void goOn(std::span<Clock> met, double at);

  const Card &card;
  FirstLevel l1;
  std::function<bool(uint64_t)> inL2;
  Counters sums;
  Sectors reads, writes;
  std::vector<Clock> clocks;
  double engine = 0; // when the bulk copy engine is free
  std::unordered_map<uint64_t, double>
      arrivals; // by mbarrier: of the last copy
};

} // namespace kvc::ptx

#endif // KVC_PTX_PROFILE_BLOCKPROFILE_H
