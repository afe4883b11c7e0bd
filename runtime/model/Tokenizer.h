//===- Tokenizer.h - byte-level BPE of a tokenizer.json -------------------===//

#ifndef KVC_RUNTIME_MODEL_TOKENIZER_H
#define KVC_RUNTIME_MODEL_TOKENIZER_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvc::rt {

/// Byte-level BPE as GPT-2 and Llama 3 have it: a regular expression cuts the
/// text into words, bytes become printable characters, merges join them.
class Tokenizer {
public:
  /// Reads DIR/tokenizer.json. Throws Failure that names what is malformed or
  /// not implemented.
  explicit Tokenizer(const std::string &dir);
  ~Tokenizer();

  /// Throws Failure unless every token id is below `vocab`.
  void checkFits(uint32_t vocab) const;
  /// Special tokens in the text are recognised. With `begin`, what the
  /// post-processor puts around a text is added. Throws Failure if the text is
  /// not UTF-8.
  std::vector<uint32_t> encode(std::string_view text, bool begin) const;
  /// Special tokens are left out.
  std::string decode(const std::vector<uint32_t> &tokens) const;

private:
  struct Pattern;
  struct AddedToken {
    std::string text;
    uint32_t id;
  };

  std::unordered_map<std::string, uint32_t> vocab;
  std::unordered_map<uint32_t, std::string> texts; // in byte characters
  std::unordered_map<uint64_t, std::pair<uint32_t, uint32_t>> merges;
  std::vector<AddedToken> added; // longest first
  std::unordered_map<uint32_t, bool> special;
  std::vector<uint32_t> before, after; // around a text
  std::vector<std::unique_ptr<Pattern>> patterns;
  std::string unicodeOf[256];
  std::unordered_map<std::string, uint8_t> byteOf;
  bool addPrefixSpace = false, ignoreMerges = false;

  class Reader;
  void makeByteTable();
  void encodeText(std::string_view text, std::vector<uint32_t> &out) const;
  void encodeWord(std::string_view word, std::vector<uint32_t> &out) const;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_MODEL_TOKENIZER_H
