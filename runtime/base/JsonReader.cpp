//===- JsonReader.cpp - JSON as a manifest has it -------------------------===//

#include "runtime/base/JsonReader.h"

#include "runtime/base/Failure.h"

#include <algorithm>
#include <charconv>

using namespace kvc::rt;

static constexpr size_t deepest = 100;

const JsonValue *JsonValue::find(std::string_view key) const {
  auto at = std::find(keys.begin(), keys.end(), key);
  return at == keys.end() ? nullptr : &items[size_t(at - keys.begin())];
}

template <typename T>
static std::optional<T> numberIn(std::string_view source) {
  T value;
  auto [end, error] =
      std::from_chars(source.data(), source.data() + source.size(), value);
  if (error != std::errc() || end != source.data() + source.size())
    return std::nullopt;
  return value;
}

std::optional<uint64_t> JsonValue::whole() const {
  return is(Kind::Number) ? numberIn<uint64_t>(source) : std::nullopt;
}

std::optional<double> JsonValue::number() const {
  return is(Kind::Number) ? numberIn<double>(source) : std::nullopt;
}

std::string JsonValue::quote() const { return excerpt(source); }

namespace {

/// Every function takes what it is named after from the front of the rest, or
/// returns false.
class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  bool document(JsonValue &out) {
    if (!value(out, 0))
      return false;
    space();
    return at == text.size();
  }

private:
  std::string_view text;
  size_t at = 0;

  void space() {
    while (at < text.size() &&
           std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos)
      ++at;
  }
  bool take(std::string_view token) {
    if (!text.substr(at).starts_with(token))
      return false;
    at += token.size();
    return true;
  }
  bool takeSpaced(char c) {
    space();
    return take({&c, 1});
  }

  bool value(JsonValue &out, size_t depth) {
    space();
    size_t begin = at;
    if (!unquoted(out, depth))
      return false;
    out.source = text.substr(begin, at - begin);
    return true;
  }

  bool unquoted(JsonValue &out, size_t depth) {
    using Kind = JsonValue::Kind;
    if (take("null"))
      return true;
    out.kind = Kind::Bool;
    if (take("true"))
      return out.boolean = true;
    if (take("false"))
      return true;
    if (at < text.size() && text[at] == '"') {
      out.kind = Kind::Text;
      return string(out.text);
    }
    if (take("[")) {
      out.kind = Kind::List;
      return depth < deepest && list(out, depth);
    }
    if (take("{")) {
      out.kind = Kind::Object;
      return depth < deepest && object(out, depth);
    }
    out.kind = Kind::Number;
    return number();
  }

  bool list(JsonValue &out, size_t depth) {
    if (takeSpaced(']'))
      return true;
    do {
      if (!value(out.items.emplace_back(), depth + 1))
        return false;
    } while (takeSpaced(','));
    return takeSpaced(']');
  }

  bool object(JsonValue &out, size_t depth) {
    if (takeSpaced('}'))
      return true;
    do {
      space();
      std::string key;
      if (!string(key) || !takeSpaced(':'))
        return false;
      out.keys.push_back(std::move(key));
      if (!value(out.items.emplace_back(), depth + 1))
        return false;
    } while (takeSpaced(','));
    std::vector<std::string_view> sorted(out.keys.begin(), out.keys.end());
    std::sort(sorted.begin(), sorted.end());
    return takeSpaced('}') &&
           std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  }

  bool digits() {
    size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9')
      ++at;
    return at > begin;
  }
  bool number() {
    take("-");
    if (!take("0") && !digits())
      return false;
    if (take(".") && !digits())
      return false;
    if (take("e") || take("E")) {
      if (!take("+"))
        take("-");
      return digits();
    }
    return true;
  }

  bool string(std::string &out) {
    if (!take("\""))
      return false;
    while (at < text.size()) {
      char c = text[at++];
      if (c == '"')
        return true;
      if (uint8_t(c) < 0x20)
        return false;
      if (c != '\\')
        out += c;
      else if (!escape(out))
        return false;
    }
    return false;
  }

  bool escape(std::string &out) {
    static constexpr std::string_view names = "\"\\/bfnrt",
                                      meant = "\"\\/\b\f\n\r\t";
    if (at == text.size())
      return false;
    char c = text[at++];
    if (size_t which = names.find(c); which != std::string_view::npos) {
      out += meant[which];
      return true;
    }
    uint32_t code, low;
    if (c != 'u' || !hex(code))
      return false;
    if (code >= 0xd800 && code < 0xdc00) { // the first half of a pair
      if (!take("\\u") || !hex(low) || low < 0xdc00 || low > 0xdfff)
        return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      return false;
    }
    appendUtf8(out, code);
    return true;
  }

  bool hex(uint32_t &code) {
    if (text.size() - at < 4)
      return false;
    auto [end, error] =
        std::from_chars(text.data() + at, text.data() + at + 4, code, 16);
    at += 4;
    return error == std::errc() && end == text.data() + at;
  }

  static void appendUtf8(std::string &out, uint32_t code) {
    if (code < 0x80) {
      out += char(code);
      return;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static constexpr uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    out += char(first[more] | code >> (6 * more));
    while (more--)
      out += char(0x80 | (code >> (6 * more) & 0x3f));
  }
};

} // namespace

std::optional<JsonValue> kvc::rt::readJson(std::string_view text) {
  JsonValue root;
  if (!Parser(text).document(root))
    return std::nullopt;
  return root;
}
