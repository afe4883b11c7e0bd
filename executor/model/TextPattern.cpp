//===- TextPattern.cpp - a regular expression that cuts a text ------------===//

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "executor/model/TextPattern.h"

#include "runtime/base/Failure.h"

using namespace kvc::rt;

TextPattern::TextPattern(const std::string &text, const std::string &what) {
  int error;
  PCRE2_SIZE offset;
  pcre2_code *compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    // \C would cut inside a character.
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr);
  if (!compiled)
    throw fail(KVC_BAD_ARGUMENT, "{} must be a regular expression, got '{}'",
               what, text);
  code.reset(compiled,
             [](void *p) { pcre2_code_free(static_cast<pcre2_code *>(p)); });
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
}

std::vector<std::string> TextPattern::cut(std::string_view text) const {
  auto *compiled = static_cast<pcre2_code *>(code.get());
  std::vector<std::string> words;
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data *)> match(
      pcre2_match_data_create_from_pattern(compiled, nullptr),
      pcre2_match_data_free);
  size_t at = 0, done = 0;
  while (at < text.size()) {
    int found =
        pcre2_match(compiled, reinterpret_cast<PCRE2_SPTR>(text.data()),
                    text.size(), at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH)
      break;
    if (found < 0) { // it takes too many steps, or too much memory
      char why[256];
      pcre2_get_error_message(found, reinterpret_cast<PCRE2_UCHAR *>(why),
                              sizeof why);
      throw fail(KVC_BAD_ARGUMENT,
                 "the tokenizer's pattern must cut a text of {} bytes, got: {}",
                 text.size(), why);
    }
    PCRE2_SIZE *range = pcre2_get_ovector_pointer(match.get());
    if (range[1] == range[0]) { // an empty match cuts nothing
      for (at = range[1] + 1;
           at < text.size() && (uint8_t(text[at]) & 0xc0) == 0x80;)
        ++at;
      continue;
    }
    if (range[0] > done)
      words.emplace_back(text.substr(done, range[0] - done));
    words.emplace_back(text.substr(range[0], range[1] - range[0]));
    at = done = range[1];
  }
  if (done < text.size())
    words.emplace_back(text.substr(done));
  return words;
}
