//===- Extent.cpp - symbolic sizes of the manifest ------------------------===//

#include "runtime/base/Extent.h"

#include "runtime/base/Failure.h"

#include <cctype>
#include <string_view>

using namespace kvc::rt;

namespace {

class Parser {
public:
  Parser(const std::string &text, const Symbols &symbols)
      : text(text), rest(text), symbols(symbols) {}

  uint64_t run() {
    // ceildiv may stand in ceildiv, and each is a call.
    if (text.size() > longest)
      throw fail(KVC_BAD_ARTIFACT,
                 "manifest: an extent must have at most {} characters, got {}",
                 longest, text.size());
    uint64_t value = product();
    if (!rest.empty())
      throw bad();
    return value;
  }

private:
  static constexpr size_t longest = 1000;
  const std::string &text;
  std::string_view rest;
  const Symbols &symbols;

  Failure bad() const {
    return fail(KVC_BAD_ARTIFACT,
                "manifest: an extent must be made of known names, numbers, * "
                "and ceildiv(a,b), got '{}'",
                text);
  }

  bool take(char c) {
    if (rest.empty() || rest.front() != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }

  uint64_t product() {
    uint64_t value = factor();
    while (take('*'))
      if (__builtin_mul_overflow(value, factor(), &value))
        throw bad();
    return value;
  }

  uint64_t factor() {
    size_t length = 0;
    while (length < rest.size() &&
           (std::isalnum(static_cast<unsigned char>(rest[length])) ||
            rest[length] == '_'))
      ++length;
    std::string_view word = rest.substr(0, length);
    rest.remove_prefix(length);
    if (word == "ceildiv") {
      if (!take('('))
        throw bad();
      uint64_t a = product();
      if (!take(','))
        throw bad();
      uint64_t b = product();
      if (!take(')') || b == 0)
        throw bad();
      return a / b + (a % b != 0);
    }
    if (word.empty() || word.size() > 18)
      throw bad();
    if (std::isdigit(static_cast<unsigned char>(word.front()))) {
      uint64_t number = 0;
      for (char c : word) {
        if (!std::isdigit(static_cast<unsigned char>(c)))
          throw bad();
        number = number * 10 + uint64_t(c - '0');
      }
      return number;
    }
    auto it = symbols.find(word);
    if (it == symbols.end())
      throw bad();
    return it->second;
  }
};

} // namespace

uint64_t kvc::rt::evaluateExtent(const std::string &text,
                                 const Symbols &symbols) {
  return Parser(text, symbols).run();
}
