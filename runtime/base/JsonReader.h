//===- JsonReader.h - JSON as a manifest has it ---------------------------===//
//
// A reader of the runtime's own, so that an engine that links it carries no other
// library. It takes RFC 8259 and nothing else, nested at most 100 deep.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_BASE_JSONREADER_H
#define KVC_RUNTIME_BASE_JSONREADER_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvc::rt {

/// One value. `source` points into the text that was parsed, which must outlive it.
struct JsonValue {
  enum class Kind { Null, Bool, Number, Text, List, Object };
  Kind kind = Kind::Null;
  std::string_view source;
  bool boolean = false;
  std::string text;              // of Text, without escapes
  std::vector<JsonValue> items;  // of List and Object
  std::vector<std::string> keys; // of Object, one for each item

  bool is(Kind wanted) const { return kind == wanted; }
  /// Of an Object; null where it has none of that name.
  const JsonValue *find(std::string_view key) const;
  /// A Number that is one exactly: digits alone, below 2^64.
  std::optional<uint64_t> whole() const;
  std::optional<double> number() const;
  /// The beginning of `source`, for messages.
  std::string quote() const;
};

/// Nothing where `text` is not JSON, names a key twice or is nested too deep.
std::optional<JsonValue> readJson(std::string_view text);

} // namespace kvc::rt

#endif // KVC_RUNTIME_BASE_JSONREADER_H
