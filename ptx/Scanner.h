//===- Scanner.h - the statements of a PTX text ---------------------------===//

#ifndef KVC_PTX_SCANNER_H
#define KVC_PTX_SCANNER_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvc::ptx {

/// A word, a number, a string or one character of punctuation.
struct Token {
  std::string_view text; // empty at the end
  uint32_t line;
};

/// The tokens of a text without its comments. Opcodes, directives and names are
/// one token each: "ld.global.b32", ".shared", "%rd4", "$L__BB0_1".
std::vector<Token> scan(std::string_view text);

} // namespace kvc::ptx

#endif // KVC_PTX_SCANNER_H
