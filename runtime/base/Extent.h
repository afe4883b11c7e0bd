//===- Extent.h - symbolic sizes of the manifest --------------------------===//

#ifndef KVC_RUNTIME_BASE_EXTENT_H
#define KVC_RUNTIME_BASE_EXTENT_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kvc::rt {

/// What an extent may name. `symbolNames` spells them in this order.
enum class Symbol {
  Batch,
  QHeads,
  KvHeads,
  HeadDim,
  Tokens,
  QRows,
  IndexCapacity
};
constexpr std::array<const char *, 7> symbolNames = {
    "batch",  "q_heads", "kv_heads",      "head_dim",
    "tokens", "q_rows",  "index_capacity"};
using Symbols = std::array<uint64_t, symbolNames.size()>;

/// A product of numbers, symbols, ceildiv(a,b) and min(a,b), each of a and b an extent:
/// parsed once, evaluated in every call without allocating.
class Extent {
public:
  /// Throws Failure (KVC_BAD_ARTIFACT) on anything else.
  explicit Extent(const std::string &text);
  /// Throws Failure (KVC_EXCEEDS_LIMITS) on an overflow or a division by 0.
  uint64_t evaluate(const Symbols &symbols) const;

  const std::string &text() const { return source; }

private:
  class Parser;
  /// In postfix order, on a stack of at most `deepest` values.
  struct Step {
    enum Kind { Number, Name, Multiply, CeilDiv, Min } kind;
    uint64_t value; // of Number, or the Symbol of Name
  };
  static constexpr size_t deepest = 32;
  std::string source;
  std::vector<Step> steps;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_EXTENT_H
