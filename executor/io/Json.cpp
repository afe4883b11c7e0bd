//===- Json.cpp - JSON of files that nobody vouches for -------------------===//

#include "executor/io/Json.h"

using namespace kvc::rt;
using nlohmann::json;

static constexpr size_t deepest = 100;
static constexpr size_t quoted = 80;

/// True where brackets outside of texts are nested deeper than `deepest`.
static bool isTooDeep(std::string_view text) {
  size_t depth = 0;
  bool inText = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inText && c == '\\')
      ++i;
    else if (c == '"')
      inText = !inText;
    else if (inText)
      continue;
    else if ((c == '[' || c == '{') && ++depth > deepest)
      return true;
    else if ((c == ']' || c == '}') && depth)
      --depth;
  }
  return false;
}

json kvc::rt::parseJson(std::string_view text) {
  if (isTooDeep(text))
    return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string kvc::rt::quote(const json &value) {
  return excerpt(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string kvc::rt::excerpt(std::string_view text) {
  size_t end = text.size();
  if (end > quoted) // between two characters
    for (end = quoted; end && (uint8_t(text[end]) & 0xc0) == 0x80;)
      --end;
  return std::string(text.substr(0, end));
}
