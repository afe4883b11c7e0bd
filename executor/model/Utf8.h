//===- Utf8.h - characters of a text --------------------------------------===//

#ifndef KVC_EXECUTOR_MODEL_UTF8_H
#define KVC_EXECUTOR_MODEL_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvc::rt {

/// Bytes of the character at `at`, 0 where the text is not UTF-8 there.
size_t utf8Length(std::string_view text, size_t at);
/// Where the text stops being UTF-8, or npos.
size_t findBadUtf8(std::string_view text);
/// A code point below 2^16.
std::string utf8(uint32_t code);
/// Each byte that belongs to no character becomes U+FFFD.
std::string repairUtf8(std::string_view text);

enum class Normalization { NFC, NFD, NFKC, NFKD };
std::string normalize(std::string_view text, Normalization form);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_UTF8_H
