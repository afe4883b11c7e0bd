//===- Report.cpp ---------------------------------------------------------===//

#include "ptx/profile/Report.h"

#include "ptx/profile/Estimate.h"

#include "runtime/base/Format.h"

using namespace kvc::ptx;
using kvc::rt::formatted;

namespace {

double orOne(double count) { return count > 0 ? count : 1; }

std::string shapeLine(const LaunchProfile &p) {
  std::string line =
      formatted("{}\n  {} blocks ({} x {} x {}) of {} threads, ", p.kernel,
                p.blocks, p.grid[0], p.grid[1], p.grid[2], p.threads);
  if (p.ran < p.blocks)
    line += formatted("{} of them run, ", p.ran);
  line += p.assembled
              ? formatted("{} registers, {} bytes spilled, ",
                          p.assembled->registers, p.assembled->spilledBytes)
              : formatted("no ptxas: {} registers taken for granted, ",
                          Profiler::assumedRegisters);
  return line + formatted("{} bytes of shared memory, {} blocks on an SM\n",
                          p.sharedBytes, p.resident);
}

std::string workLines(const LaunchProfile &p) {
  const Counters &n = p.counters;
  std::string text = "  thousand instructions:";
  for (size_t i = 0; i < unitCount; ++i)
    if (n.issues[i] > 0)
      text += formatted(" {} {:.1f}", unitName(Unit(i)), n.issues[i] / 1e3);
  text += formatted(
      "\n  global: {:.1f} sectors a load (ideal {:.1f}), {:.2f} MB from L2{}, "
      "{:.2f} MB read from DRAM, {:.2f} MB written\n",
      n.loadSectors / orOne(n.loadRequests),
      n.loadIdeal / orOne(n.loadRequests), n.l2Bytes / 1e6,
      n.bulkBytes > 0 ? formatted(" ({:.2f} by bulk copies)", n.bulkBytes / 1e6)
                      : "",
      p.dramRead / 1e6, p.dramWritten / 1e6);
  text += formatted("  shared: {:.2f} passes a request (ideal {:.2f}); "
                    "{:.0f} barriers a warp; longest warp {:.1f} kclk\n",
                    n.sharedPasses / orOne(n.sharedRequests),
                    n.sharedIdeal / orOne(n.sharedRequests),
                    n.barriers / double(p.blocks) / ((p.threads + 31) / 32),
                    p.longestPath / 1e3);
  return text;
}

std::string timeLines(const Estimate &e) {
  std::string text = "  us:";
  for (size_t i = 0; i < resourceCount; ++i)
    text += formatted("{} {} {:.1f}", i ? "," : "", resourceName(Resource(i)),
                      e.busy[i] * 1e6);
  return text +
         formatted("\n  estimate {:.1f} us ({:.1f} to {:.1f}), floor {:.1f}, "
                   "{:.1f} x, bound by {}\n",
                   e.middle * 1e6, e.low * 1e6, e.high * 1e6, e.floor * 1e6,
                   e.ratio(), resourceName(e.binding));
}

} // namespace

std::string kvc::ptx::report(const std::vector<LaunchProfile> &launches,
                             const Card &card) {
  std::string text;
  double low = 0, high = 0, middle = 0, floor = 0;
  for (const LaunchProfile &launch : launches) {
    Estimate e = estimate(launch, card);
    low += e.low, high += e.high, middle += e.middle, floor += e.floor;
    text += shapeLine(launch) + workLines(launch) + timeLines(e);
  }
  return text + formatted("{} launches on {}: estimate {:.1f} us ({:.1f} to "
                          "{:.1f}), floor {:.1f}, {:.1f} x; an estimate, not a "
                          "measurement\n",
                          launches.size(), card.name, middle * 1e6, low * 1e6,
                          high * 1e6, floor * 1e6, middle / orOne(floor));
}
