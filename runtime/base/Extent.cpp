//===- Extent.cpp - symbolic sizes of the manifest ------------------------===//

#include "runtime/base/Extent.h"

#include "runtime/base/Failure.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

using namespace kvc::rt;

class Extent::Parser {
public:
  Parser(const std::string &text, std::vector<Step> &steps)
      : text(text), rest(text), steps(steps) {}

  void run() {
    // ceildiv and min may stand in each other, and each is a call.
    if (text.size() > longest)
      throw fail(KVC_BAD_ARTIFACT,
                 "manifest: an extent must have at most {} characters, got {}",
                 longest, text.size());
    product();
    if (!rest.empty())
      throw bad();
  }

private:
  static constexpr size_t longest = 1000;
  const std::string &text;
  std::string_view rest;
  std::vector<Step> &steps;
  size_t depth = 0;

  Failure bad() const {
    return fail(KVC_BAD_ARTIFACT,
                "manifest: an extent must be made of known names, numbers, *, "
                "ceildiv(a,b) and min(a,b), got '{}'",
                text);
  }

  bool take(char c) {
    if (rest.empty() || rest.front() != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }

  void push(Step::Kind kind, uint64_t value) {
    if (++depth > deepest)
      throw bad();
    steps.push_back({kind, value});
  }

  /// Takes two values, leaves one.
  void combine(Step::Kind kind) {
    --depth;
    steps.push_back({kind, 0});
  }

  void product() {
    factor();
    while (take('*')) {
      factor();
      combine(Step::Multiply);
    }
  }

  void factor() {
    size_t length = 0;
    while (length < rest.size() &&
           (std::isalnum(static_cast<unsigned char>(rest[length])) ||
            rest[length] == '_'))
      ++length;
    std::string_view word = rest.substr(0, length);
    rest.remove_prefix(length);
    if (word == "ceildiv" || word == "min") {
      if (!take('('))
        throw bad();
      product();
      if (!take(','))
        throw bad();
      product();
      if (!take(')'))
        throw bad();
      return combine(word == "min" ? Step::Min : Step::CeilDiv);
    }
    uint64_t number = 0;
    auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), number);
    if (!word.empty() && error == std::errc() &&
        end == word.data() + word.size())
      return push(Step::Number, number);
    auto name = std::find(symbolNames.begin(), symbolNames.end(), word);
    if (name == symbolNames.end())
      throw bad();
    push(Step::Name, uint64_t(name - symbolNames.begin()));
  }
};

Extent::Extent(const std::string &text) : source(text) {
  Parser(source, steps).run();
}

uint64_t Extent::evaluate(const Symbols &symbols) const {
  std::array<uint64_t, deepest> stack;
  size_t top = 0;
  for (const Step &step : steps) {
    if (step.kind == Step::Number || step.kind == Step::Name) {
      stack[top++] =
          step.kind == Step::Number ? step.value : symbols[step.value];
      continue;
    }
    uint64_t b = stack[--top], &a = stack[top - 1];
    bool wrong = step.kind == Step::Multiply
                     ? __builtin_mul_overflow(a, b, &a)
                     : step.kind == Step::CeilDiv && b == 0;
    if (wrong)
      throw fail(KVC_EXCEEDS_LIMITS, "an extent must fit 64 bits, got '{}'",
                 source);
    if (step.kind == Step::CeilDiv)
      a = a / b + (a % b != 0);
    if (step.kind == Step::Min)
      a = std::min(a, b);
  }
  return stack[0];
}
