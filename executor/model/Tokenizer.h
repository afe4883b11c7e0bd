//===- Tokenizer.h - the BPE of a tokenizer.json --------------------------===//
//
// Two kinds are in use. Byte-level (GPT-2, Llama 3, Qwen): a regular expression
// cuts the text into words, bytes become printable characters. SentencePiece's
// (Llama 2, Mistral): spaces become U+2581, characters without a token bytes.
// In both, merges then join neighbours.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_MODEL_TOKENIZER_H
#define KVC_EXECUTOR_MODEL_TOKENIZER_H

#include "executor/model/Bpe.h"

#include <array>
#include <functional>

namespace kvc::rt {

/// A token that is looked for in the text before anything else.
struct AddedToken {
  std::string text;
  uint32_t id;
  bool special;                 // left out of decoded text
  bool stripsLeft, stripsRight; // takes the white space beside it
  bool wholeWord;               // not inside a word
};

class Tokenizer {
public:
  /// Reads DIR/tokenizer.json. Throws Failure that names what is malformed or
  /// not implemented.
  explicit Tokenizer(const std::string &dir);

  /// Throws Failure unless every token id is below `vocab`.
  void checkFits(uint32_t vocab) const;
  /// Added tokens in the text are recognised. With `begin`, what the
  /// post-processor puts around a text is added. Throws Failure if the text is
  /// not UTF-8.
  std::vector<uint32_t> encode(std::string_view text, bool begin) const;
  /// Special tokens are left out.
  std::string decode(const std::vector<uint32_t> &tokens) const;

private:
  friend class TokenizerReader; // TokenizerReader.cpp
  /// From a piece of text to another, or to words; `first` where it begins the
  /// text.
  using Normalizer = std::function<std::string(std::string, bool first)>;
  using Cutter =
      std::function<std::vector<std::string>(const std::string &, bool first)>;

  Bpe bpe;
  std::unordered_map<uint32_t, std::string> texts; // of all tokens
  std::vector<AddedToken> added;                   // longest first
  std::unordered_map<uint32_t, bool> addedIds;     // whether special
  std::array<bool, 256> startsAdded = {};          // first bytes of those
  std::vector<Normalizer> normalizers;
  std::vector<Cutter> cutters;
  bool byteLevel = false;
  std::unordered_map<std::string, char> byteOf; // of byte-level characters
  bool stripsFirstSpace = false;                // of what is decoded
  std::vector<uint32_t> before, after;          // around a text

  const AddedToken *findAdded(std::string_view text, size_t at) const;
  void encodeText(std::string_view text, bool first,
                  std::vector<uint32_t> &out) const;
};

/// The character that stands for a byte in byte-level vocabularies.
const std::array<std::string, 256> &byteCharacters();
/// U+2581, SentencePiece's space.
extern const char spaceMark[];
std::string replaceAll(std::string text, const std::string &from,
                       const std::string &to);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_TOKENIZER_H
