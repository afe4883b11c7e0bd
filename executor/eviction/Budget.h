//===- Budget.h - --budget and --keep -------------------------------------===//

#ifndef KVC_EXECUTOR_EVICTION_BUDGET_H
#define KVC_EXECUTOR_EVICTION_BUDGET_H

#include <cstdint>
#include <string>

namespace kvc::rt {

/// The budget of a KV head in tokens: a number, or a share of T.
class Budget {
public:
  Budget() = default; // of nothing
  /// Exactly one of the two is not empty. Throws Failure: a budget is a whole
  /// number of at least 1, a share a decimal above 0 and up to 1.
  static Budget parse(const std::string &budget, const std::string &keep);

  /// B for a sequence of T tokens; a share gives floor(share * T), computed
  /// exactly from the decimal text. Throws Failure if that is 0.
  uint32_t of(uint32_t tokens) const;
  /// The same behind a part of a prompt: a share leaves 1 token at least.
  uint32_t ofPart(uint32_t tokens) const;

private:
  uint32_t share(uint32_t tokens) const;

  uint64_t numerator = 0, denominator = 0; // denominator 0: a number of tokens
  std::string text;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_BUDGET_H
