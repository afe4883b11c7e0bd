//===- Scanner.cpp --------------------------------------------------------===//

#include "ptx/Scanner.h"

#include <cctype>

using namespace kvc::ptx;

static bool isInName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '%' || c == '.';
}

std::vector<Token> kvc::ptx::scan(std::string_view text) {
  std::vector<Token> tokens;
  uint32_t line = 1;
  for (size_t i = 0; i < text.size();) {
    std::string_view rest = text.substr(i);
    size_t length = 1;
    if (rest[0] == '\n') {
      ++line;
    } else if (rest.starts_with("//")) {
      length = std::min(rest.find('\n'), rest.size());
    } else if (rest.starts_with("/*")) {
      size_t end = rest.find("*/", 2);
      length = end == std::string_view::npos ? rest.size() : end + 2;
      for (char c : rest.substr(0, length))
        line += c == '\n';
    } else if (rest[0] == '"') {
      size_t end = rest.find('"', 1);
      length = end == std::string_view::npos ? rest.size() : end + 1;
      tokens.push_back({rest.substr(0, length), line});
    } else if (isInName(rest[0])) {
      while (length < rest.size() && isInName(rest[length]))
        ++length;
      // "a::b" is one modifier of an opcode.
      while (rest.substr(length).starts_with("::")) {
        length += 2;
        while (length < rest.size() && isInName(rest[length]))
          ++length;
      }
      tokens.push_back({rest.substr(0, length), line});
    } else if (!std::isspace(static_cast<unsigned char>(rest[0]))) {
      tokens.push_back({rest.substr(0, 1), line});
    }
    i += length;
  }
  tokens.push_back({{}, line});
  return tokens;
}
