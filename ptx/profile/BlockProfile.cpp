//===- BlockProfile.cpp ---------------------------------------------------===//

#include "ptx/profile/BlockProfile.h"

#include "ptx/BulkCopies.h"
#include "ptx/TensorMap.h"
#include "ptx/Warp.h"

#include <bit>

using namespace kvc::ptx;

// Clocks until a load has its value, from where it was found. From L1 as published for
// sm_80 to sm_90, else as measured on an H200; docs/cost-model.md.
static constexpr double fromL1 = 34, fromL2 = 288, fromDram = 695;
static constexpr double branchClocks = 6;
// Of 8 blocks that have each written 1 KiB to global memory, as measured on an H200.
static constexpr double clusterClocks = 711;

FirstLevel::FirstLevel(uint64_t bytes)
    : sets(std::max<uint64_t>(1, bytes / 128 / ways)) {
  lines.resize(sets * ways);
}

uint8_t FirstLevel::miss(uint64_t line, uint8_t sectors) {
  ++now;
  // Rows of a tensor are powers of two apart: spread them, as hardware does.
  size_t set = (line ^ line / sets ^ line / sets / sets) % sets;
  Line *oldest = &lines[set * ways];
  for (Line *way = oldest, *end = way + ways; way != end; ++way) {
    if (way->line == line) {
      uint8_t missing = sectors & ~way->sectors;
      way->sectors |= sectors;
      way->used = now;
      return missing;
    }
    if (way->used < oldest->used)
      oldest = way;
  }
  *oldest = {line, now, sectors};
  return sectors;
}

BlockProfile::BlockProfile(const Card &card, const Kernel &kernel,
                           uint32_t warps, uint64_t l1Bytes,
                           std::function<bool(uint64_t)> inL2)
    : card(card), l1(l1Bytes), inL2(std::move(inL2)), clocks(warps) {
  for (Clock &clock : clocks)
    clock.ready.assign(kernel.rows(), 0);
}

void BlockProfile::endBasicBlock(Clock &clock, double more) {
  clock.base = std::max({clock.latest + more, clock.base + clock.issues,
                         clock.base + clock.passes, clock.base + clock.matrix,
                         clock.base + clock.special});
  clock.issues = clock.passes = clock.matrix = clock.special = 0;
  clock.latest = clock.base;
}

/// Waits for the oldest groups until `pending` are left: when the last of them is over, or 0.
static double endOfGroups(std::deque<double> &groups, uint64_t pending) {
  double end = 0;
  for (; groups.size() > pending; groups.pop_front())
    end = std::max(end, groups.front());
  return end;
}

void BlockProfile::instruction(const Warp &warp, const Instruction &op,
                               uint32_t lanes) {
  const Cost &cost = op.cost;
  Clock &clock = clocks[warp.index];
  sums.issues[size_t(cost.unit)] += cost.issues;
  clock.issues += cost.issues;
  double at = clock.base;
  for (const Operand &operand : op.operands)
    at = std::max(at, clock.ready[operand.row]);
  if (op.guarded)
    at = std::max(at, clock.ready[op.guard.row]);
  double latency = cost.latency;
  if (cost.special && lanes) {
    sums.special += 1;
    clock.special += 8; // 4 lanes a clock in a quarter of an SM
  }
  if (cost.unit == Unit::Matrix) {
    sums.matrix += cost.products;
    if (cost.traffic != Traffic::Products)
      clock.matrix += card.matrixClocks * cost.products;
  }
  switch (cost.traffic) {
  case Traffic::None:
    break;
  case Traffic::Load:
  case Traffic::Store:
  case Traffic::Change:
    if (!lanes)
      break;
    latency = access(warp, op, lanes, clock);
    if (cost.shared && cost.traffic != Traffic::Load)
      clock.stored = std::max(clock.stored, at + latency);
    break;
  case Traffic::Copy:
    if (lanes)
      copy(warp, op, lanes, clock, at);
    break;
  case Traffic::Bulk:
    if (lanes)
      bulkCopy(BoxCopy(warp, op, uint32_t(std::countr_zero(lanes))), at);
    break;
  case Traffic::Arrive:
    if (!lanes)
      break;
    clock.latest = std::max(
        clock.latest,
        arrivals[addressOf(warp, op.operands[0], std::countr_zero(lanes))]);
    break;
  case Traffic::Products:
    sums.warpgroupMatrix += cost.products;
    // One behind the other; the results of one come together.
    clock.multiplied = std::max(clock.multiplied, at) +
                       warpgroupMatrixClocks(card) * cost.products;
    latency += clock.multiplied - at;
    break;
  case Traffic::CommitProducts:
    clock.products.push_back(clock.multiplied);
    break;
  case Traffic::WaitForProducts:
    if (double end = endOfGroups(clock.products, warp[op.operands[0]][0]))
      clock.latest = std::max(clock.latest, end + productLatency);
    break;
  case Traffic::Commit:
    clock.groups.push_back(clock.landing);
    break;
  case Traffic::Wait: {
    bool all = op.operands.empty();
    if (all)
      clock.groups.push_back(clock.landing);
    size_t pending = all ? 0 : warp[op.operands[0]][0];
    clock.stored = std::max(clock.stored, endOfGroups(clock.groups, pending));
    clock.latest = std::max(clock.latest, clock.stored);
    break;
  }
  }
  clock.latest = std::max(clock.latest, at);
  for (Row row : op.results)
    clock.ready[row] = at + latency;
  switch (op.flow) {
  case Flow::Branch:
  case Flow::Return:
    endBasicBlock(clock, branchClocks);
    break;
  case Flow::Barrier:
  case Flow::ClusterBarrier:
    sums.barriers += 1;
    [[fallthrough]];
  case Flow::Warp:
    if (cost.unit != Unit::Barrier)
      break;
    clock.latest = std::max(clock.latest, clock.stored);
    endBasicBlock(clock, 0);
    break;
  case Flow::Next:
    break;
  }
}

void BlockProfile::barrier(uint32_t first, uint32_t count) {
  std::span met(clocks.data() + first, count);
  goOn(met, latestOf(met));
}

double BlockProfile::latestOf(std::span<const Clock> met) {
  double latest = 0;
  for (const Clock &clock : met)
    latest = std::max(latest, clock.base);
  return latest;
}

void BlockProfile::goOn(std::span<Clock> met, double at) {
  for (Clock &clock : met)
    clock.base = clock.latest = at;
}

void BlockProfile::clusterBarrier(double last) {
  goOn(clocks, last + clusterClocks);
  l1.forget();
}

Counters BlockProfile::counters() {
  for (Clock &clock : clocks) {
    endBasicBlock(clock, 0);
    sums.path = std::max(sums.path, clock.base);
  }
  return sums;
}

namespace {

/// A warp's accesses go through the memory pipe in groups of lanes, 128 bytes a
/// group.
uint32_t lanesTogether(uint32_t bytes) {
  return bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
}

/// Sorts and drops what is there twice; returns how many are left.
template <size_t n>
size_t distinct(std::array<uint64_t, n> &values, size_t count) {
  std::sort(values.begin(), values.begin() + count);
  return size_t(std::unique(values.begin(), values.begin() + count) -
                values.begin());
}

} // namespace

uint64_t BlockProfile::Place::operator()(uint32_t lane) const {
  return addressOf(warp, operand, lane);
}

double BlockProfile::access(const Warp &warp, const Instruction &op,
                            uint32_t lanes, Clock &clock) {
  const Cost &cost = op.cost;
  Place place = {warp,         op.operands[0], lanes & cost.lanes,
                 cost.traffic, cost.bytes,     cost.latency};
  return cost.shared ? shared(place, clock) : global(place, clock);
}

void BlockProfile::copy(const Warp &warp, const Instruction &op, uint32_t lanes,
                        Clock &clock, double at) {
  auto bytes = uint32_t(warp[op.operands[2]][0]);
  double read = global(
      {warp, op.operands[1], lanes, Traffic::Copy, bytes, op.cost.latency},
      clock);
  double written = shared(
      {warp, op.operands[0], lanes, Traffic::Store, bytes, op.cost.latency},
      clock);
  clock.landing = std::max(clock.landing, at + read + written);
}

void BlockProfile::bulkCopy(const BoxCopy &copy, double at) {
  double latency = fromL2;
  forRowsOfBox(copy.tensor, copy.from, [&](uint32_t, uint64_t from) {
    uint64_t end = (from + rt::BoxedTensor::rowBytes + 31) / 32;
    for (uint64_t sector = from / 32; from && sector < end; ++sector) {
      sums.loadSectors += 1;
      sums.l2Bytes += 32;
      uint8_t &known = reads[sector / 4], bit = uint8_t(1u << sector % 4);
      if (!(known & bit) && !inL2(sector / 4))
        latency = fromDram;
      known |= bit;
    }
  });
  const auto bytes = double(copy.bytes());
  sums.bulkBytes += bytes;
  sums.loadRequests += bytes / 512; // as loads of 16 bytes a lane
  sums.loadIdeal += bytes / 32;
  sums.sharedRequests += bytes / 512;
  sums.sharedPasses += bytes / 128;
  sums.sharedIdeal += bytes / 128;
  engine = std::max(engine, at) + bytes / l2BytesOfSM;
  double &landed = arrivals[copy.arrival];
  landed = std::max(landed, engine + latency);
}

double BlockProfile::shared(const Place &place, Clock &clock) {
  uint32_t together = lanesTogether(place.bytes);
  double passes = 0, ideal = 0;
  for (uint32_t first = 0; first < 32; first += together) {
    // Distinct words by bank: the fullest bank says how often all must go.
    std::array<uint64_t, 128> words;
    size_t count = 0;
    for (uint32_t lane = first; lane < first + together; ++lane)
      if (place.lanes >> lane & 1)
        for (uint32_t byte = 0; byte < place.bytes; byte += 4)
          words[count++] = (place(lane) + byte) / 4;
    // Of atomics too: what a warp adds to one word, the hardware adds up first.
    count = distinct(words, count);
    std::array<uint8_t, 32> banks = {};
    uint8_t most = 0;
    for (size_t i = 0; i < count; ++i)
      most = std::max(most, ++banks[words[i] % 32]);
    passes += most;
    ideal += count > 0;
  }
  if (place.traffic == Traffic::Change) { // read and write
    passes *= 2;
    ideal *= 2;
  }
  sums.sharedRequests += 1;
  sums.sharedPasses += passes;
  sums.sharedIdeal += ideal;
  clock.passes += passes;
  return place.latency + passes - 1;
}

double BlockProfile::global(const Place &place, Clock &clock) {
  uint32_t together = lanesTogether(place.bytes);
  double passes = 0;
  std::array<uint64_t, 64> sectors;
  std::array<uint64_t, 32> places;
  size_t sectorCount = 0, placeCount = 0;
  for (uint32_t first = 0; first < 32; first += together) {
    std::array<uint64_t, 32> lines;
    size_t count = 0;
    for (uint32_t lane = first; lane < first + together; ++lane)
      if (place.lanes >> lane & 1) {
        uint64_t address = place(lane);
        lines[count++] = address / 128;
        places[placeCount++] = address;
        sectors[sectorCount++] = address / 32;
      }
    passes += double(distinct(lines, count));
  }
  sectorCount = distinct(sectors, sectorCount);
  uint64_t ideal = (distinct(places, placeCount) * place.bytes + 31) / 32;
  sums.globalPasses += passes;
  clock.passes += passes;
  if (place.traffic != Traffic::Load && place.traffic != Traffic::Copy) {
    sums.l2Bytes += 32.0 * double(sectorCount);
    for (size_t i = 0; i < sectorCount; ++i)
      writes[sectors[i] / 4] |= uint8_t(1u << sectors[i] % 4);
    // An atomic's old value comes from where it is added to.
    return place.traffic == Traffic::Change ? fromL2 : place.latency;
  }
  sums.loadRequests += 1;
  sums.loadSectors += double(sectorCount);
  sums.loadIdeal += double(ideal);
  double latency = fromL1 + passes - 1;
  for (size_t i = 0; i < sectorCount;) {
    uint64_t line = sectors[i] / 4;
    uint8_t mask = 0;
    for (; i < sectorCount && sectors[i] / 4 == line; ++i)
      mask |= uint8_t(1u << sectors[i] % 4);
    // Copies of 16 bytes go past L1.
    bool past = place.traffic == Traffic::Copy && place.bytes == 16;
    uint8_t missing = past ? mask : l1.miss(line, mask);
    if (!missing)
      continue;
    sums.l2Bytes += 32.0 * std::popcount(missing);
    uint8_t &known = reads[line];
    bool first = missing & ~known;
    known |= missing;
    latency = std::max(latency, first && !inL2(line) ? fromDram : fromL2);
  }
  return latency;
}
