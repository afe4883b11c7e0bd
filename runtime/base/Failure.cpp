//===- Failure.cpp - errors inside the runtime ----------------------------===//

#include "runtime/base/Failure.h"

using namespace kvc::rt;

// More than the longest path that systems know, twice.
static constexpr size_t longest = 10'000;
static constexpr size_t quoted = 80;

std::string kvc::rt::oneLine(std::string_view text) {
  if (text.size() > longest)
    return oneLine(text.substr(0, longest / 2)) + " ... " +
           oneLine(text.substr(text.size() - longest / 2));
  std::string line;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = uint8_t(text[i]);
    std::string_view rest = text.substr(i);
    if (byte == '\n')
      line += "\\n";
    else if (byte == '\t')
      line += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      line += formatted("\\x{:02x}", byte);
    else if (rest.starts_with("\xc2\x85")) // next line
      line += "\\u0085", i += 1;
    else if (rest.starts_with("\xe2\x80\xa8")) // line separator
      line += "\\u2028", i += 2;
    else if (rest.starts_with("\xe2\x80\xa9")) // paragraph separator
      line += "\\u2029", i += 2;
    else
      line += text[i];
  }
  return line;
}

std::string kvc::rt::excerpt(std::string_view text) {
  size_t end = text.size();
  if (end > quoted) // between two characters
    for (end = quoted; end && (uint8_t(text[end]) & 0xc0) == 0x80;)
      --end;
  return std::string(text.substr(0, end));
}

std::string kvc::rt::inOrder(int64_t number, int64_t before) {
  return before < 0 ? formatted("{} first", number)
                    : formatted("{} behind {}", number, before);
}

Failure::Failure(kvc_status status, const std::string &message)
    : std::runtime_error(oneLine(message)), status(status) {}
