//===- Budget.cpp - --budget and --keep -----------------------------------===//

#include "executor/eviction/Budget.h"

#include "runtime/base/Failure.h"

#include <algorithm>
#include <charconv>

using namespace kvc::rt;

static bool parseWhole(std::string_view text, uint64_t &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
         !text.empty();
}

Budget Budget::parse(const std::string &budget, const std::string &keep) {
  Budget result;
  if (!budget.empty()) {
    result.text = budget;
    if (!parseWhole(budget, result.numerator) || result.numerator < 1 ||
        result.numerator > INT32_MAX)
      throw fail(KVC_BAD_ARGUMENT,
                 "budget must be a whole number of 1 to 2147483647, got '{}'",
                 budget);
    return result;
  }
  result.text = keep;
  auto bad = [&] {
    return fail(KVC_BAD_ARGUMENT,
                "keep must be a decimal above 0 and up to 1, got '{}'", keep);
  };
  size_t dot = keep.find('.');
  std::string digits = keep;
  size_t places = 0;
  if (dot != std::string::npos) {
    digits.erase(dot, 1);
    places = digits.size() - dot;
  }
  // Twelve places keep numerator times T inside 64 bits.
  if (places > 12 || !parseWhole(digits, result.numerator))
    throw bad();
  result.denominator = 1;
  for (size_t i = 0; i < places; ++i)
    result.denominator *= 10;
  if (result.numerator == 0 || result.numerator > result.denominator)
    throw bad();
  return result;
}

uint32_t Budget::share(uint32_t tokens) const {
  if (!denominator)
    return uint32_t(numerator);
  return uint32_t((unsigned __int128)numerator * tokens / denominator);
}

uint32_t Budget::ofPart(uint32_t tokens) const {
  return std::max(1u, share(tokens));
}

uint32_t Budget::of(uint32_t tokens) const {
  uint32_t budget = share(tokens);
  if (budget == 0)
    throw fail(KVC_BAD_ARGUMENT,
               "keep must leave at least 1 token, got {} of {} tokens", text,
               tokens);
  return budget;
}
