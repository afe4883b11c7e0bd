//===- Bpe.h - byte pair encoding of a word -------------------------------===//

#ifndef KVC_EXECUTOR_MODEL_BPE_H
#define KVC_EXECUTOR_MODEL_BPE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvc::rt {

/// Merges neighbours, the pair of the best rank first, the leftmost of equals.
class Bpe {
public:
  std::unordered_map<std::string, uint32_t> vocab;
  /// A word that is a token is not cut.
  bool ignoreMerges = false;
  /// Characters without a token become one per byte, `<0xE2>`.
  bool byteFallback = false;
  /// Those that even so have none become this, one for a run with `fuseUnk`.
  std::optional<uint32_t> unknown;
  bool fuseUnknown = false;

  /// Merge number `rank`; false unless both and what they make are tokens.
  bool addMerge(const std::string &left, const std::string &right,
                uint32_t rank);
  /// Appends the tokens of a word. Throws Failure where a character has none.
  void encode(const std::string &word, std::vector<uint32_t> &out) const;

private:
  struct Merge {
    uint32_t rank, token;
  };
  std::unordered_map<uint64_t, Merge> merges; // by left << 32 | right

  std::vector<uint32_t> characters(const std::string &word) const;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_BPE_H
