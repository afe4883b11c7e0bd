//===- TokenizerReader.cpp - tokenizer.json of a Hugging Face model -------===//

#include "runtime/base/Failure.h"
#include "executor/io/Json.h"
#include "executor/io/MappedFile.h"
#include "executor/model/TextPattern.h"
#include "executor/model/Tokenizer.h"
#include "executor/model/Utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace kvc::rt;
using nlohmann::json;

// The pattern of GPT-2, which ByteLevel uses when it cuts by itself.
static const char gpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Files in use have a character of three bytes.
static constexpr size_t mostMark = 64;

namespace kvc::rt {

/// Fills a tokenizer from the file; what is not implemented is refused.
class TokenizerReader {
public:
  TokenizerReader(Tokenizer &t, const std::string &path)
      : t(t), path(path), root(parseJson(readText(path))) {
    if (!root.is_object())
      throw fail(KVC_BAD_ARGUMENT, "{}: must be a JSON object", path);
    readModel();
    readAddedTokens();
    readNormalizer(part("normalizer"));
    readPreTokenizer(part("pre_tokenizer"));
    readPostProcessor(part("post_processor"));
    readDecoder(part("decoder"));
    for (uint32_t byte = 0; byte < 256; ++byte)
      t.byteOf[byteCharacters()[byte]] = char(byte);
  }

private:
  Tokenizer &t;
  const std::string &path;
  json root;

  json part(const char *name) const { return root.value(name, json()); }

  Failure bad(const std::string &field, const std::string &rule,
              const json &value) const {
    return fail(KVC_BAD_ARGUMENT, "{}: {} must be {}, got {}", path, field,
                rule, quote(value));
  }

  static std::string typeOf(const json &object) {
    return textOf(object, "type");
  }
  /// A field's text; empty where it is none.
  static std::string textOf(const json &object, const char *field) {
    return object.is_object() && object.contains(field) &&
                   object[field].is_string()
               ? object[field].get<std::string>()
               : "";
  }
  /// A text that is put in where another was.
  std::string markOf(const json &step, const char *field) const {
    std::string mark = textOf(step, field);
    if (mark.size() > mostMark)
      throw bad(field, formatted("at most {} bytes", mostMark), mark);
    return mark;
  }
  static bool flagOf(const json &object, const char *field, bool absent) {
    return object.contains(field) && object[field].is_boolean()
               ? object[field].get<bool>()
               : absent;
  }
  static json listOf(const json &object, const char *field) {
    return object.contains(field) && object[field].is_array() ? object[field]
                                                              : json::array();
  }

  //===--- the vocabulary and its merges
  //-----------------------------------===//

  void readModel() {
    json model = part("model");
    if (typeOf(model) != "BPE")
      throw bad("model.type", "BPE", model.is_object() ? model["type"] : model);
    if (!model["vocab"].is_object() || model["vocab"].empty())
      throw bad("model.vocab", "an object of tokens", model["vocab"]);
    for (auto &[text, id] : model["vocab"].items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
        throw bad("model.vocab['" + text + "']", "a token id", id);
      t.bpe.vocab[text] = id.get<uint32_t>();
      // Tokens that share an id would let merges go round in circles.
      auto [other, fresh] = t.texts.try_emplace(id.get<uint32_t>(), text);
      if (!fresh)
        throw bad("model.vocab['" + text + "']",
                  "an id of its own, not that of '" + other->second + "'", id);
    }
    if (!model["merges"].is_array())
      throw bad("model.merges", "a list", model["merges"]);
    uint32_t rank = 0;
    for (const json &merge : model["merges"])
      readMerge(merge, rank++);
    for (const char *feature :
         {"continuing_subword_prefix", "end_of_word_suffix", "dropout"})
      if (model.contains(feature) && !model[feature].is_null() &&
          model[feature] != "" && model[feature] != 0.0)
        throw bad(std::string("model.") + feature, "null", model[feature]);
    t.bpe.ignoreMerges = flagOf(model, "ignore_merges", false);
    t.bpe.byteFallback = flagOf(model, "byte_fallback", false);
    t.bpe.fuseUnknown = flagOf(model, "fuse_unk", false);
    if (std::string unknown = textOf(model, "unk_token"); !unknown.empty()) {
      auto it = t.bpe.vocab.find(unknown);
      if (it == t.bpe.vocab.end())
        throw bad("model.unk_token", "in the vocabulary", unknown);
      t.bpe.unknown = it->second;
    }
  }

  /// "a b" or ["a", "b"]
  void readMerge(const json &merge, uint32_t rank) {
    std::string name = formatted("model.merges[{}]", rank);
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
    if (left.empty() || right.empty() || !t.bpe.addMerge(left, right, rank))
      throw bad(name, "made of tokens of the vocabulary", merge);
  }

  void readAddedTokens() {
    for (const json &token : listOf(root, "added_tokens")) {
      std::string text = textOf(token, "content");
      if (!token.is_object() || !token.contains("id") ||
          !token["id"].is_number_unsigned() ||
          token["id"].get<uint64_t>() > UINT32_MAX || text.empty())
        throw bad("added_tokens", "objects with id and content", token);
      AddedToken added{text,
                       token["id"].get<uint32_t>(),
                       flagOf(token, "special", false),
                       flagOf(token, "lstrip", false),
                       flagOf(token, "rstrip", false),
                       flagOf(token, "single_word", false)};
      t.addedIds[added.id] = added.special;
      t.texts[added.id] = text;
      t.startsAdded[uint8_t(text[0])] = true;
      t.added.push_back(std::move(added));
    }
    std::sort(t.added.begin(), t.added.end(),
              [](const AddedToken &a, const AddedToken &b) {
                return a.text.size() > b.text.size();
              });
  }

  //===--- the text in front of the merges
  //---------------------------------===//

  void readNormalizer(const json &step) {
    std::string type = typeOf(step);
    if (step.is_null())
      return;
    if (type == "Sequence") {
      for (const json &inner : listOf(step, "normalizers"))
        readNormalizer(inner);
      return;
    }
    const std::pair<const char *, Normalization> forms[] = {
        {"NFC", Normalization::NFC},
        {"NFD", Normalization::NFD},
        {"NFKC", Normalization::NFKC},
        {"NFKD", Normalization::NFKD}};
    for (auto [name, form] : forms)
      if (type == name) {
        t.normalizers.push_back([form = form](std::string text, bool) {
          return normalize(text, form);
        });
        return;
      }
    if (type == "Prepend") {
      t.normalizers.push_back(
          [mark = markOf(step, "prepend")](std::string text, bool) {
            return text.empty() ? text : mark + text;
          });
      return;
    }
    if (type == "Replace") {
      std::string from = patternText(step, "normalizer");
      t.normalizers.push_back(
          [from, to = markOf(step, "content")](std::string text, bool) {
            return replaceAll(std::move(text), from, to);
          });
      return;
    }
    throw bad("normalizer.type",
              "Sequence, NFC, NFD, NFKC, NFKD, Prepend or Replace", step);
  }

  /// The text of a pattern {"String": TEXT}.
  std::string patternText(const json &step, const char *where) const {
    std::string text = textOf(
        step.is_object() ? step.value("pattern", json()) : json(), "String");
    if (text.empty())
      throw bad(where, "a Replace of a String", step);
    return text;
  }

  void readPreTokenizer(const json &step) {
    std::string type = typeOf(step);
    if (step.is_null())
      return;
    if (type == "Sequence") {
      for (const json &inner : listOf(step, "pretokenizers"))
        readPreTokenizer(inner);
      return;
    }
    if (type == "ByteLevel") {
      t.byteLevel = true;
      if (flagOf(step, "add_prefix_space", true))
        t.cutters.push_back([](const std::string &text, bool) {
          bool spaced = text.starts_with(' ');
          return std::vector<std::string>{spaced ? text : " " + text};
        });
      if (flagOf(step, "use_regex", true))
        cutBy(gpt2Pattern);
      return;
    }
    if (type == "Metaspace")
      return readMetaspace(step);
    if (type == "Split") {
      json pattern = step.value("pattern", json());
      std::string regex = textOf(pattern, "Regex");
      if (regex.empty() || textOf(step, "behavior") != "Isolated" ||
          flagOf(step, "invert", false))
        throw bad("pre_tokenizer", "Split by a Regex, Isolated, not inverted",
                  step);
      return cutBy(regex);
    }
    throw bad("pre_tokenizer.type", "Sequence, Split, ByteLevel or Metaspace",
              step);
  }

  void cutBy(const std::string &regex) {
    TextPattern pattern(regex, path + ": a pre_tokenizer's pattern");
    t.cutters.push_back(
        [pattern](const std::string &text, bool) { return pattern.cut(text); });
  }

  /// Spaces become marks; with `split` each mark begins a word.
  void readMetaspace(const json &step) {
    std::string scheme = textOf(step, "prepend_scheme");
    if (scheme.empty())
      scheme = flagOf(step, "add_prefix_space", true) ? "always" : "never";
    bool split = flagOf(step, "split", true);
    std::string mark = markOf(step, "replacement");
    if (mark.empty())
      throw bad("pre_tokenizer.replacement", "a character", step);
    t.cutters.push_back([=](const std::string &raw, bool first) {
      std::string text = replaceAll(raw, " ", mark);
      bool prepends = scheme == "always" || (scheme == "first" && first);
      if (prepends && !text.starts_with(mark))
        text = mark + text;
      std::vector<std::string> words;
      size_t from = 0;
      while (split && from < text.size()) {
        size_t next = text.find(mark, from + 1);
        if (next == std::string::npos)
          break;
        words.push_back(text.substr(from, next - from));
        from = next;
      }
      words.push_back(text.substr(from));
      return words;
    });
  }

  //===--- around the tokens, and back to text
  //-----------------------------===//

  void readPostProcessor(const json &step) {
    std::string type = typeOf(step);
    if (step.is_null() || type == "ByteLevel")
      return;
    if (type == "Sequence") {
      for (const json &inner : listOf(step, "processors"))
        readPostProcessor(inner);
      return;
    }
    if (type != "TemplateProcessing")
      throw bad("post_processor.type",
                "TemplateProcessing, ByteLevel or Sequence", step);
    bool textSeen = false;
    json tokens = step.value("special_tokens", json::object());
    for (const json &piece : listOf(step, "single")) {
      if (piece.is_object() && piece.contains("Sequence")) {
        textSeen = true;
        continue;
      }
      std::string name = piece.is_object()
                             ? textOf(piece.value("SpecialToken", json()), "id")
                             : "";
      if (!tokens.is_object() || !tokens.contains(name) ||
          !tokens[name].is_object() || !tokens[name].contains("ids"))
        throw bad("post_processor.single", "special tokens and a sequence",
                  piece);
      for (const json &id : tokens[name]["ids"]) {
        if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
          throw bad("post_processor.special_tokens", "token ids", id);
        (textSeen ? t.after : t.before).push_back(id.get<uint32_t>());
      }
    }
  }

  /// The steps of a decoder follow from the encoder's, but for one: whether
  /// the space in front of the text is taken away again.
  void readDecoder(const json &step) {
    std::string type = typeOf(step);
    if (type == "Sequence") {
      for (const json &inner : listOf(step, "decoders"))
        readDecoder(inner);
    } else if (type == "Strip") {
      t.stripsFirstSpace = textOf(step, "content") == " " &&
                           step.value("start", json(0)) == 1 &&
                           step.value("stop", json(0)) == 0;
      if (!t.stripsFirstSpace)
        throw bad("decoder", "a Strip of one space in front", step);
    } else if (type == "Metaspace") {
      t.stripsFirstSpace = textOf(step, "prepend_scheme") != "never" &&
                           flagOf(step, "add_prefix_space", true);
    } else if (!step.is_null() && type != "ByteLevel" && type != "Replace" &&
               type != "ByteFallback" && type != "Fuse") {
      throw bad("decoder.type",
                "Sequence, ByteLevel, Metaspace, Replace, ByteFallback, Fuse "
                "or Strip",
                step);
    }
  }
};

} // namespace kvc::rt

Tokenizer::Tokenizer(const std::string &dir) {
  TokenizerReader(*this, dir + "/tokenizer.json");
}
