//===- Tokenizer.cpp - the BPE of a tokenizer.json ------------------------===//

#include "executor/model/Tokenizer.h"

#include "runtime/base/Failure.h"
#include "executor/model/Utf8.h"

#include <utility>

using namespace kvc::rt;

const char kvc::rt::spaceMark[] = "\xe2\x96\x81";

/// Printable bytes stand for themselves, the others for characters from 256 on.
const std::array<std::string, 256> &kvc::rt::byteCharacters() {
  static const std::array<std::string, 256> table = [] {
    std::array<std::string, 256> result;
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= '!' && byte <= '~') ||
                       (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      result[byte] = utf8(printable ? byte : next++);
    }
    return result;
  }();
  return table;
}

std::string kvc::rt::replaceAll(std::string text, const std::string &from,
                                const std::string &to) {
  std::string result;
  size_t done = 0;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       done = at += from.size())
    result.append(text, done, at - done).append(to);
  return result.append(text, done);
}

void Tokenizer::checkFits(uint32_t limit) const {
  for (const auto &[id, text] : texts)
    if (id >= limit)
      throw fail(KVC_BAD_ARGUMENT,
                 "the tokenizer must fit the model's vocabulary of {} tokens, "
                 "got token {} ('{}')",
                 limit, id, text);
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

static bool isSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool isWord(char c) {
  auto byte = uint8_t(c);
  return byte >= 0x80 || std::isalnum(byte) || byte == '_';
}

const AddedToken *Tokenizer::findAdded(std::string_view text, size_t at) const {
  if (!startsAdded[uint8_t(text[at])])
    return nullptr;
  for (const AddedToken &token : added) {
    size_t end = at + token.text.size();
    if (!text.substr(at).starts_with(token.text))
      continue;
    if (token.wholeWord && ((at > 0 && isWord(text[at - 1])) ||
                            (end < text.size() && isWord(text[end]))))
      continue;
    return &token;
  }
  return nullptr;
}

std::vector<uint32_t> Tokenizer::encode(std::string_view text,
                                        bool begin) const {
  if (size_t at = findBadUtf8(text); at != std::string_view::npos)
    throw fail(KVC_BAD_ARGUMENT,
               "the text must be UTF-8, got byte 0x{:02x} at {}",
               uint8_t(text[at]), at);
  std::vector<uint32_t> out;
  if (begin)
    out = before;
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const AddedToken *token = findAdded(text, i);
    if (!token) {
      ++i;
      continue;
    }
    size_t end = i;
    while (token->stripsLeft && end > done && isSpace(text[end - 1]))
      --end;
    encodeText(text.substr(done, end - done), done == 0, out);
    out.push_back(token->id);
    i += token->text.size();
    while (token->stripsRight && i < text.size() && isSpace(text[i]))
      ++i;
    done = i;
  }
  encodeText(text.substr(done), done == 0, out);
  if (begin)
    out.insert(out.end(), after.begin(), after.end());
  return out;
}

void Tokenizer::encodeText(std::string_view text, bool first,
                           std::vector<uint32_t> &out) const {
  if (text.empty())
    return;
  // Each step may put several bytes where one was, and steps can be many.
  auto checkGrowth = [&](size_t bytes) {
    constexpr size_t most = 64;
    if (bytes > most * (text.size() + most))
      throw fail(KVC_BAD_ARGUMENT,
                 "the tokenizer's steps must not make a text {} times as long, "
                 "got {} bytes of {}",
                 most, bytes, text.size());
  };
  std::string normalized(text);
  for (const Normalizer &step : normalizers) {
    normalized = step(std::move(normalized), first);
    checkGrowth(normalized.size());
  }
  std::vector<std::string> words{normalized};
  for (const Cutter &cut : cutters) {
    size_t bytes = 0;
    std::vector<std::string> finer;
    bool start = first;
    for (const std::string &word : words) {
      for (std::string &part : cut(word, start)) {
        bytes += part.size();
        finer.push_back(std::move(part));
      }
      checkGrowth(bytes);
      start = false;
    }
    words.swap(finer);
  }
  for (const std::string &word : words) {
    if (!byteLevel) {
      bpe.encode(word, out);
      continue;
    }
    std::string characters;
    for (char c : word)
      characters += byteCharacters()[uint8_t(c)];
    bpe.encode(characters, out);
  }
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// "<0xE2>" is a byte.
static bool isByteToken(const std::string &text, char &byte) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>' ||
      !std::isxdigit(uint8_t(text[3])) || !std::isxdigit(uint8_t(text[4])))
    return false;
  byte = char(std::stoi(text.substr(3, 2), nullptr, 16));
  return true;
}

std::string Tokenizer::decode(const std::vector<uint32_t> &tokens) const {
  std::string text, bytes;
  auto flush = [&] { text += repairUtf8(std::exchange(bytes, "")); };
  for (uint32_t token : tokens) {
    auto it = texts.find(token);
    auto isAdded = addedIds.find(token);
    if (it == texts.end() || (isAdded != addedIds.end() && isAdded->second))
      continue;
    const std::string &piece = it->second;
    if (isAdded != addedIds.end()) {
      // No control token: plain text.
      flush();
      text += piece;
    } else if (char byte;
               !byteLevel && bpe.byteFallback && isByteToken(piece, byte)) {
      bytes += byte;
    } else if (!byteLevel) {
      flush();
      text += replaceAll(piece, spaceMark, " ");
    } else {
      for (size_t i = 0, length; i < piece.size(); i += length) {
        length = std::max<size_t>(1, utf8Length(piece, i));
        if (auto byte = byteOf.find(piece.substr(i, length));
            byte != byteOf.end())
          bytes += byte->second;
      }
    }
  }
  if (byteLevel) // a character's bytes may lie in several tokens
    text += bytes;
  else
    flush();
  if (stripsFirstSpace && text.starts_with(' '))
    text.erase(0, 1);
  return text;
}
