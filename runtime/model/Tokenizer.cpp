//===- Tokenizer.cpp - byte-level BPE of a tokenizer.json -----------------===//

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/model/Tokenizer.h"

#include "runtime/base/Failure.h"
#include "runtime/io/MappedFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <queue>

using namespace kvc::rt;
using nlohmann::json;

// The pattern of GPT-2, which ByteLevel uses when it cuts by itself.
static const char gpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// A compiled regular expression that cuts a text: matches and what lies
/// between them are words.
struct Tokenizer::Pattern {
  Pattern(const std::string &text, const std::string &path) {
    int error;
    PCRE2_SIZE offset;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                         PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    if (!code)
      throw fail(KVC_BAD_ARGUMENT,
                 "{}: pre_tokenizer pattern is no regular expression: '{}'",
                 path, text);
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  }
  ~Pattern() { pcre2_code_free(code); }

  std::vector<std::string_view> cut(std::string_view text) const {
    std::vector<std::string_view> words;
    pcre2_match_data *match =
        pcre2_match_data_create_from_pattern(code, nullptr);
    size_t at = 0, done = 0;
    while (at < text.size()) {
      int found =
          pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                      text.size(), at, PCRE2_NO_UTF_CHECK, match, nullptr);
      if (found < 0)
        break;
      PCRE2_SIZE *range = pcre2_get_ovector_pointer(match);
      if (range[1] == range[0]) { // an empty match cuts nothing
        at = range[1] + 1;
        continue;
      }
      if (range[0] > done)
        words.push_back(text.substr(done, range[0] - done));
      words.push_back(text.substr(range[0], range[1] - range[0]));
      at = done = range[1];
    }
    pcre2_match_data_free(match);
    if (done < text.size())
      words.push_back(text.substr(done));
    return words;
  }

  pcre2_code *code;
};

Tokenizer::~Tokenizer() = default;

//===----------------------------------------------------------------------===//
// Reading tokenizer.json
//===----------------------------------------------------------------------===//

/// Fills a tokenizer from the file.
class Tokenizer::Reader {
public:
  Reader(Tokenizer &t, const std::string &path)
      : t(t), path(path), root(json::parse(readText(path), nullptr, false)) {
    if (!root.is_object())
      throw fail(KVC_BAD_ARGUMENT, "{}: must be a JSON object", path);
    readModel();
    readAddedTokens();
    if (root.contains("normalizer") && !root["normalizer"].is_null())
      throw bad("normalizer", "null (others are not implemented)",
                root["normalizer"]);
    readPreTokenizer(root.value("pre_tokenizer", json()));
    if (!byteLevel)
      throw bad("pre_tokenizer", "ByteLevel or a Sequence that ends in it",
                root.value("pre_tokenizer", json()));
    readPostProcessor(root.value("post_processor", json()));
  }

private:
  Tokenizer &t;
  const std::string &path;
  json root;
  bool byteLevel = false;

  Failure bad(const std::string &field, const std::string &rule,
              const json &value) const {
    return fail(KVC_BAD_ARGUMENT, "{}: {} must be {}, got {}", path, field,
                rule,
                value.dump(-1, ' ', false, json::error_handler_t::replace)
                    .substr(0, 80));
  }

  static std::string typeOf(const json &object) {
    return object.is_object() && object.contains("type") &&
                   object["type"].is_string()
               ? object["type"].get<std::string>()
               : "";
  }

  void readModel() {
    json &model = root["model"];
    if (typeOf(model) != "BPE")
      throw bad("model.type", "BPE", model.is_object() ? model["type"] : model);
    if (!model["vocab"].is_object() || model["vocab"].empty())
      throw bad("model.vocab", "an object of tokens", model["vocab"]);
    for (auto &[text, id] : model["vocab"].items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
        throw bad("model.vocab['" + text + "']", "a token id", id);
      t.vocab[text] = id.get<uint32_t>();
      t.texts[id.get<uint32_t>()] = text;
    }
    if (!model["merges"].is_array())
      throw bad("model.merges", "a list", model["merges"]);
    uint32_t rank = 0;
    for (const json &merge : model["merges"])
      readMerge(merge, rank++);
    if (model.contains("ignore_merges"))
      t.ignoreMerges = model["ignore_merges"] == true;
    for (const char *feature :
         {"continuing_subword_prefix", "end_of_word_suffix", "dropout"})
      if (model.contains(feature) && !model[feature].is_null() &&
          model[feature] != "" && model[feature] != 0.0)
        throw bad(std::string("model.") + feature, "null", model[feature]);
    if (model.contains("byte_fallback") && model["byte_fallback"] == true)
      throw bad("model.byte_fallback", "false (byte-level BPE has every byte)",
                true);
  }

  /// "a b" or ["a", "b"]
  void readMerge(const json &merge, uint32_t rank) {
    std::string name = fmt::format("model.merges[{}]", rank);
    std::string left, right;
    if (merge.is_string()) {
      std::string text = merge.get<std::string>();
      size_t space = text.find(' ');
      if (space == std::string::npos)
        throw bad(name, "two tokens", merge);
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else {
      throw bad(name, "two tokens", merge);
    }
    auto a = t.vocab.find(left), b = t.vocab.find(right),
         c = t.vocab.find(left + right);
    if (a == t.vocab.end() || b == t.vocab.end() || c == t.vocab.end())
      throw bad(name, "made of tokens of the vocabulary", merge);
    t.merges.try_emplace(uint64_t(a->second) << 32 | b->second, rank,
                         c->second);
  }

  void readAddedTokens() {
    for (const json &token : root.value("added_tokens", json::array())) {
      if (!token.is_object() || !token.contains("id") ||
          !token["id"].is_number_unsigned() || !token.contains("content") ||
          !token["content"].is_string() ||
          token["content"].get<std::string>().empty())
        throw bad("added_tokens", "objects with id and content", token);
      auto id = token["id"].get<uint32_t>();
      auto text = token["content"].get<std::string>();
      t.added.push_back({text, id});
      t.special[id] = token.value("special", false);
      t.texts[id] = text;
    }
    std::sort(t.added.begin(), t.added.end(),
              [](const AddedToken &a, const AddedToken &b) {
                return a.text.size() > b.text.size();
              });
  }

  void readPreTokenizer(const json &step) {
    std::string type = typeOf(step);
    if (type == "Sequence") {
      for (const json &inner : step.value("pretokenizers", json::array()))
        readPreTokenizer(inner);
      return;
    }
    if (type == "ByteLevel") {
      byteLevel = true;
      t.addPrefixSpace = step.value("add_prefix_space", false);
      if (step.value("use_regex", true))
        t.patterns.push_back(std::make_unique<Pattern>(gpt2Pattern, path));
      return;
    }
    if (type == "Split") {
      json pattern = step.value("pattern", json());
      if (!pattern.is_object() || !pattern.contains("Regex") ||
          !pattern["Regex"].is_string() ||
          step.value("behavior", "") != "Isolated" ||
          step.value("invert", false))
        throw bad("pre_tokenizer", "Split by a Regex, Isolated, not inverted",
                  step);
      t.patterns.push_back(
          std::make_unique<Pattern>(pattern["Regex"].get<std::string>(), path));
      return;
    }
    throw bad("pre_tokenizer.type", "Sequence, Split or ByteLevel", step);
  }

  void readPostProcessor(const json &step) {
    std::string type = typeOf(step);
    if (step.is_null() || type == "ByteLevel")
      return;
    if (type == "Sequence") {
      for (const json &inner : step.value("processors", json::array()))
        readPostProcessor(inner);
      return;
    }
    if (type != "TemplateProcessing")
      throw bad("post_processor.type",
                "TemplateProcessing, ByteLevel or Sequence", step);
    bool textSeen = false;
    for (const json &piece : step.value("single", json::array())) {
      if (piece.is_object() && piece.contains("Sequence")) {
        textSeen = true;
        continue;
      }
      std::string name = piece.is_object() && piece.contains("SpecialToken")
                             ? piece["SpecialToken"].value("id", "")
                             : "";
      json tokens = step.value("special_tokens", json::object());
      if (!tokens.contains(name) || !tokens[name].contains("ids"))
        throw bad("post_processor.single", "special tokens and a sequence",
                  piece);
      for (const json &id : tokens[name]["ids"]) {
        if (!id.is_number_unsigned())
          throw bad("post_processor.special_tokens", "token ids", id);
        (textSeen ? t.after : t.before).push_back(id.get<uint32_t>());
      }
    }
  }
};

Tokenizer::Tokenizer(const std::string &dir) {
  makeByteTable();
  Reader(*this, dir + "/tokenizer.json");
}

void Tokenizer::checkFits(uint32_t limit) const {
  for (const auto &[id, text] : texts)
    if (id >= limit)
      throw fail(KVC_BAD_ARGUMENT,
                 "the tokenizer must fit the model's vocabulary of {} tokens, "
                 "got token {} ('{}')",
                 limit, id, text);
}

static std::string utf8(uint32_t code) {
  std::string text;
  if (code < 0x80) {
    text += char(code);
  } else { // the table needs no more than two bytes
    text += char(0xc0 | code >> 6);
    text += char(0x80 | (code & 0x3f));
  }
  return text;
}

/// Printable bytes stand for themselves, the others for characters from 256 on.
void Tokenizer::makeByteTable() {
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    bool printable = (byte >= '!' && byte <= '~') ||
                     (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    unicodeOf[byte] = utf8(printable ? byte : next++);
    byteOf[unicodeOf[byte]] = uint8_t(byte);
  }
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

/// Where the text stops being UTF-8, or npos.
static size_t findBadUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto c = uint8_t(text[i]);
    size_t length = c < 0x80                ? 1
                    : c >= 0xc2 && c < 0xe0 ? 2
                    : c >= 0xe0 && c < 0xf0 ? 3
                    : c >= 0xf0 && c < 0xf5 ? 4
                                            : 0;
    if (length == 0 || i + length > text.size())
      return i;
    for (size_t j = 1; j < length; ++j)
      if ((uint8_t(text[i + j]) & 0xc0) != 0x80)
        return i;
    auto second = length > 1 ? uint8_t(text[i + 1]) : 0;
    if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second >= 0xa0) ||
        (c == 0xf0 && second < 0x90) || (c == 0xf4 && second >= 0x90))
      return i;
    i += length;
  }
  return std::string_view::npos;
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
    auto token = std::find_if(added.begin(), added.end(), [&](const auto &a) {
      return text.substr(i).starts_with(a.text);
    });
    if (token == added.end()) {
      ++i;
      continue;
    }
    encodeText(text.substr(done, i - done), out);
    out.push_back(token->id);
    done = i += token->text.size();
  }
  encodeText(text.substr(done), out);
  if (begin)
    out.insert(out.end(), after.begin(), after.end());
  return out;
}

void Tokenizer::encodeText(std::string_view text,
                           std::vector<uint32_t> &out) const {
  if (text.empty())
    return;
  std::string spaced;
  if (addPrefixSpace && text.front() != ' ')
    text = spaced = " " + std::string(text);
  std::vector<std::string_view> words{text};
  for (const auto &pattern : patterns) {
    std::vector<std::string_view> finer;
    for (std::string_view word : words)
      for (std::string_view part : pattern->cut(word))
        finer.push_back(part);
    words.swap(finer);
  }
  for (std::string_view word : words)
    encodeWord(word, out);
}

void Tokenizer::encodeWord(std::string_view word,
                           std::vector<uint32_t> &out) const {
  std::string characters;
  for (char c : word)
    characters += unicodeOf[uint8_t(c)];
  if (ignoreMerges)
    if (auto whole = vocab.find(characters); whole != vocab.end()) {
      out.push_back(whole->second);
      return;
    }
  // A list of symbols in which neighbours are joined, best rank first.
  struct Symbol {
    uint32_t token;
    int previous, next;
  };
  std::vector<Symbol> symbols;
  for (char c : word) {
    auto it = vocab.find(unicodeOf[uint8_t(c)]);
    if (it == vocab.end())
      throw fail(KVC_BAD_ARGUMENT,
                 "tokenizer: byte 0x{:02x} must be in the vocabulary",
                 uint8_t(c));
    symbols.push_back(
        {it->second, int(symbols.size()) - 1, int(symbols.size()) + 1});
  }
  symbols.back().next = -1;
  struct Candidate {
    uint32_t rank;
    int left;
    uint32_t leftToken, rightToken, joined;
    bool operator<(const Candidate &o) const {
      return rank != o.rank ? rank > o.rank : left > o.left;
    }
  };
  std::priority_queue<Candidate> queue;
  auto consider = [&](int left) {
    if (left < 0 || symbols[left].next < 0)
      return;
    uint32_t a = symbols[left].token, b = symbols[symbols[left].next].token;
    if (auto it = merges.find(uint64_t(a) << 32 | b); it != merges.end())
      queue.push({it->second.first, left, a, b, it->second.second});
  };
  for (int i = 0; i < int(symbols.size()); ++i)
    consider(i);
  constexpr uint32_t dead = UINT32_MAX;
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    Symbol &left = symbols[best.left];
    if (left.token != best.leftToken || left.next < 0 ||
        symbols[left.next].token != best.rightToken)
      continue; // one of the two has been joined meanwhile
    Symbol &right = symbols[left.next];
    left.token = best.joined;
    right.token = dead;
    left.next = right.next;
    if (right.next >= 0)
      symbols[right.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (int i = 0; i >= 0; i = symbols[i].next)
    out.push_back(symbols[i].token);
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

std::string Tokenizer::decode(const std::vector<uint32_t> &tokens) const {
  std::string text;
  for (uint32_t token : tokens) {
    if (auto it = special.find(token); it != special.end()) {
      if (!it->second) // an added token that is no control token is plain text
        text += texts.at(token);
      continue;
    }
    auto it = texts.find(token);
    if (it == texts.end())
      continue;
    const std::string &characters = it->second;
    for (size_t i = 0; i < characters.size();) {
      size_t length = uint8_t(characters[i]) < 0x80   ? 1
                      : uint8_t(characters[i]) < 0xe0 ? 2
                      : uint8_t(characters[i]) < 0xf0 ? 3
                                                      : 4;
      auto byte = byteOf.find(characters.substr(i, length));
      if (byte != byteOf.end())
        text += char(byte->second);
      i += length;
    }
  }
  return text;
}
