//===- Cost.cpp -----------------------------------------------------------===//

#include "ptx/profile/Cost.h"

#include "ptx/Types.h"

#include <algorithm>
#include <charconv>

using namespace kvc::ptx;

const char *kvc::ptx::unitName(Unit unit) {
  static constexpr const char *names[] = {
      "integer", "float",   "special", "matrix",  "shared", "global",
      "atomic",  "shuffle", "barrier", "control", "move"};
  static_assert(std::size(names) == unitCount);
  return names[size_t(unit)];
}

namespace {

using Parts = std::span<const std::string_view>;

bool has(Parts parts, std::string_view word) {
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

bool isFloating(std::string_view type) {
  return type.starts_with("f") || type == "bf16";
}

/// ld, st, atom, red.
Cost accessCost(Parts parts) {
  std::string_view name = parts[0];
  Cost cost;
  cost.traffic = name == "ld"   ? Traffic::Load
                 : name == "st" ? Traffic::Store
                                : Traffic::Change;
  if (has(parts, "param")) { // constant memory, folded into its readers
    cost.traffic = Traffic::None;
    cost.unit = Unit::Move;
    cost.issues = 0.3f;
    return cost;
  }
  cost.shared = has(parts, "shared");
  cost.unit = cost.traffic == Traffic::Change ? Unit::Atomic
              : cost.shared                   ? Unit::Shared
                                              : Unit::Global;
  cost.latency = cost.shared && cost.traffic == Traffic::Load ? 29 : 60;
  cost.bytes = uint8_t(bytesOf(parts.back()) * (has(parts, "v4")   ? 4
                                                : has(parts, "v2") ? 2
                                                                   : 1));
  return cost;
}

/// What the blocks of a cluster do to each other: a store crosses the network between SMs in
/// the 180 clocks that are published for a load (Luo et al. 2024, "Benchmarking and dissecting
/// the NVIDIA Hopper GPU architecture"); what a barrier's end takes is BlockProfile's.
Cost clusterCost(Parts parts) {
  if (parts[0] == "barrier") // with a fence, or with what drops L1
    return {Unit::Barrier, 3, 0};
  if (parts[0] == "mapa")
    return {Unit::Integer, 1, 5};
  return {.unit = Unit::Shared,
          .latency = 180,
          .traffic = Traffic::Store,
          .shared = true,
          .bytes = uint8_t(bytesOf(parts.back()))};
}

/// A box of a tensor by the bulk copy engine: its address and coordinates go to registers of
/// the warp first.
constexpr Cost bulkCost = {
    .unit = Unit::Global, .issues = 8, .latency = 0, .traffic = Traffic::Bulk};

/// cp.async and what waits for it.
Cost asyncCost(Parts parts) {
  Cost cost;
  if (has(parts, "bulk"))
    return bulkCost;
  bool copies = has(parts, "global");
  cost.unit = copies ? Unit::Global : Unit::Barrier;
  cost.traffic = copies                           ? Traffic::Copy
                 : parts.back() == "commit_group" ? Traffic::Commit
                                                  : Traffic::Wait;
  return cost;
}

/// ldmatrix: rows of 16 bytes, whose addresses the first lanes have.
Cost matrixLoadCost(Parts parts) {
  Cost cost;
  cost.unit = Unit::Shared;
  cost.latency = 29;
  cost.traffic = Traffic::Load;
  cost.shared = true;
  cost.bytes = 16;
  cost.lanes = has(parts, "x4") ? ~0u : has(parts, "x2") ? 0xffff : 0xff;
  return cost;
}

/// wgmma: a warp has 16 rows of the product, so many m16n8k16 as there are columns by 8.
/// It is begun in one issue, and runs beside what follows (BlockProfile).
Cost warpgroupCost(Parts parts) {
  if (parts[1] != "mma_async") {
    Cost cost = {Unit::Control, 1, 0};
    if (parts[1] == "commit_group")
      cost.traffic = Traffic::CommitProducts;
    if (parts[1] == "wait_group")
      cost.traffic = Traffic::WaitForProducts;
    return cost;
  }
  std::string_view shape = parts[4]; // m64n128k16
  uint32_t columns = 0;
  std::from_chars(shape.data() + 4, shape.data() + shape.size(), columns);
  return {.unit = Unit::Matrix,
          .latency = productLatency,
          .traffic = Traffic::Products,
          .products = float(columns) / 8};
}

Cost divisionCost(std::string_view type) {
  // Called or inlined sequences around rcp.
  if (isFloating(type))
    return {Unit::Float, 10, 60, true};
  return type.ends_with("64") ? Cost{Unit::Integer, 26, 160, true}
                              : Cost{Unit::Integer, 16, 120, true};
}

Cost conversionCost(Parts parts) {
  std::string_view to = parts[parts.size() - 2], from = parts.back();
  if (from == "bf16") // a shift
    return {Unit::Integer, 1, 5};
  if (to.ends_with("x2")) // two numbers become one word
    return {Unit::Integer, 1, 5};
  bool wide = to == "f64" || from == "f64";
  if (isFloating(to) != isFloating(from) || (wide && to != from))
    return {Unit::Special, 1, 25, true};
  return {Unit::Integer, isFloating(to) ? 1.0f : 0.4f, 5};
}

} // namespace

Cost kvc::ptx::costOf(Parts parts) {
  std::string_view name = parts[0], type = parts.back();
  bool wide = type.ends_with("64"), isF = isFloating(type);
  if (name == "cp")
    return asyncCost(parts);
  if (name == "barrier" || has(parts, "shared::cluster"))
    return clusterCost(parts);
  if (name == "ld" || name == "st" || name == "atom" || name == "red")
    return accessCost(parts);
  if (name == "mbarrier") {
    Cost cost = {Unit::Barrier, 1, 20};
    cost.traffic = has(parts, "try_wait") ? Traffic::Arrive : Traffic::None;
    return cost;
  }
  if (name == "ldmatrix")
    return matrixLoadCost(parts);
  if (name == "mma")
    return {.unit = Unit::Matrix, .latency = productLatency, .products = 1};
  if (name == "wgmma")
    return warpgroupCost(parts);
  if (name == "fence")
    return {Unit::Barrier, 1, 0};
  if (name == "bra" || name == "ret" || name == "griddepcontrol")
    return {Unit::Control, 1, 0};
  if (name == "shfl")
    return {Unit::Shuffle, 1, 24};
  if (name == "vote")
    return {Unit::Shuffle, 1, 12};
  if (name == "redux") // half the rate of shuffles
    return {Unit::Shuffle, 2, 30};
  if (name == "bar")
    return {Unit::Barrier, parts[1] == "warp" ? 0.5f : 1.0f, 0};
  if (name == "ex2") // without .ftz: scaled into range and back
    return {Unit::Special, has(parts, "ftz") ? 1.0f : 4.0f,
            has(parts, "ftz") ? 25.0f : 40.0f, true};
  if (name == "lg2")
    return {Unit::Special, has(parts, "ftz") ? 1.0f : 4.0f, 40, true};
  if (name == "sqrt" || name == "rcp" || name == "rsqrt")
    return {Unit::Special, has(parts, "approx") ? 1.0f : 8.0f,
            has(parts, "approx") ? 25.0f : 50.0f, true};
  if (name == "div" || name == "rem")
    return divisionCost(type);
  if (name == "cvt")
    return conversionCost(parts);
  if (name == "cvta")
    return {Unit::Move, 0, 0};
  if (name == "mov")
    return {Unit::Move, 0.3f, 2};
  if (name == "abs" || name == "neg") // modifiers of whoever reads them
    return isF ? Cost{Unit::Float, 0, 0} : Cost{Unit::Integer, 1, 5};
  if (type == "pred")
    return {Unit::Integer, 0.3f, 2};
  if (name == "mul" && has(parts, "hi"))
    return {Unit::Float, 6, 10};
  // Integer products run where fused multiply-adds do.
  if (name == "mul" || name == "mad" || name == "fma")
    return {Unit::Float, isF || has(parts, "wide") || !wide ? 1.0f : 4.0f, 5};
  if (isF && (name == "add" || name == "sub"))
    return {Unit::Float, 1, 5};
  if (name == "min" || name == "max")
    return {Unit::Integer, wide ? 4.0f : 1.0f, wide ? 12.0f : 5.0f};
  if (name == "popc")
    return {Unit::Special, 1, 20, true};
  if (name == "setp")
    return {Unit::Integer, wide ? 2.0f : 1.0f, wide ? 10.0f : 6.0f};
  return {Unit::Integer, wide ? 2.0f : 1.0f, 5};
}
