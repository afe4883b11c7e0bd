//===- Utf8.cpp - characters of a text ------------------------------------===//

#include "executor/model/Utf8.h"

#include <utf8proc.h>

#include <cstdlib>
#include <new>

using namespace kvc::rt;

size_t kvc::rt::utf8Length(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return uint8_t(text[at + i]); };
  uint8_t c = byte(0);
  size_t length = c < 0x80                ? 1
                  : c >= 0xc2 && c < 0xe0 ? 2
                  : c >= 0xe0 && c < 0xf0 ? 3
                  : c >= 0xf0 && c < 0xf5 ? 4
                                          : 0;
  if (length == 0 || at + length > text.size())
    return 0;
  for (size_t j = 1; j < length; ++j)
    if ((byte(j) & 0xc0) != 0x80)
      return 0;
  uint8_t second = length > 1 ? byte(1) : 0;
  // Overlong forms, surrogates, and what lies behind U+10FFFF.
  if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second >= 0xa0) ||
      (c == 0xf0 && second < 0x90) || (c == 0xf4 && second >= 0x90))
    return 0;
  return length;
}

size_t kvc::rt::findBadUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    size_t length = utf8Length(text, i);
    if (length == 0)
      return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string kvc::rt::utf8(uint32_t code) {
  std::string text;
  if (code < 0x80) {
    text += char(code);
  } else if (code < 0x800) {
    text += char(0xc0 | code >> 6);
    text += char(0x80 | (code & 0x3f));
  } else {
    text += char(0xe0 | code >> 12);
    text += char(0x80 | (code >> 6 & 0x3f));
    text += char(0x80 | (code & 0x3f));
  }
  return text;
}

std::string kvc::rt::repairUtf8(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    size_t length = utf8Length(text, i);
    result += length ? std::string(text.substr(i, length)) : utf8(0xfffd);
    i += length ? length : 1;
  }
  return result;
}

std::string kvc::rt::normalize(std::string_view text, Normalization form) {
  int options = UTF8PROC_STABLE;
  bool composed = form == Normalization::NFC || form == Normalization::NFKC;
  bool compatible = form == Normalization::NFKC || form == Normalization::NFKD;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  options |= compatible ? UTF8PROC_COMPAT : 0;
  utf8proc_uint8_t *mapped = nullptr;
  utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
      utf8proc_ssize_t(text.size()), &mapped, utf8proc_option_t(options));
  if (size < 0)
    throw std::bad_alloc(); // the text is UTF-8: nothing else can be wrong
  std::string result(reinterpret_cast<char *>(mapped), size_t(size));
  std::free(mapped);
  return result;
}
