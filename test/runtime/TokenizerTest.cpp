#include "executor/model/Tokenizer.h"

#include "runtime/base/Failure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace kvc::rt;

static std::string decodeAll(const Tokenizer &tokenizer,
                             const std::string &text) {
  return tokenizer.decode(tokenizer.encode(text, false));
}

// Byte-level BPE loses nothing: spaces, control characters, other scripts.
TEST(Tokenizer, RoundTripsAnyText) {
  Tokenizer tokenizer(KVC_MODELS "/needle");
  for (const char *text :
       {"", " ", "a", "  two  spaces ", "line\n\n\tbreak\r\n", "it's we'll I'd",
        "12345.67", "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80",
        "\x01\x7f", "don\xe2\x80\x99t"})
    EXPECT_EQ(decodeAll(tokenizer, text), text);
}

TEST(Tokenizer, SpecialTokens) {
  Tokenizer tokenizer(KVC_MODELS "/needle");
  EXPECT_EQ(tokenizer.encode("", true), std::vector<uint32_t>{1440});
  auto tokens = tokenizer.encode("a<|end_of_text|>b", false);
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens[1], 1441u);
  EXPECT_EQ(tokenizer.decode(tokens), "ab");
}

// The question's last space is a token of its own.
TEST(Tokenizer, TrailingSpace) {
  Tokenizer tokenizer(KVC_MODELS "/needle");
  EXPECT_EQ(tokenizer.encode("carrot is ", false).back(), 220u);
}

TEST(Tokenizer, RefusesBadText) {
  Tokenizer tokenizer(KVC_MODELS "/needle");
  for (const char *text :
       {"\xff", "a\xc3", "\xe2\x82", "\xed\xa0\x80", "\xc0\x80"})
    EXPECT_THROW(tokenizer.encode(text, false), Failure);
}

// A long word without a space must not take quadratic time.
TEST(Tokenizer, LongWord) {
  Tokenizer tokenizer(KVC_MODELS "/needle");
  std::string word(200'000, 'e');
  EXPECT_EQ(decodeAll(tokenizer, word), word);
}

static std::string refusal(const std::string &text) {
  std::string dir = testing::TempDir() + "tokenizer";
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/tokenizer.json") << text;
  try {
    Tokenizer tokenizer(dir);
  } catch (const Failure &failure) {
    std::string what = failure.what();
    return what.substr(what.find(": ") + 2);
  }
  return "accepted";
}

TEST(Tokenizer, NamesWhatIsWrong) {
  EXPECT_EQ(refusal("[]"), "must be a JSON object");
  EXPECT_EQ(refusal(R"({"model": {"type": "Unigram"}})"),
            "model.type must be BPE, got \"Unigram\"");
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": {"a": -1}}})"),
            "model.vocab['a'] must be a token id, got -1");
  // Else ("a", "b") -> "ab" would make an "a" again.
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE",
                        "vocab": {"a": 0, "b": 1, "ab": 0},
                        "merges": ["a b"]}})"),
            "model.vocab['ab'] must be an id of its own, not that of 'a', got "
            "0");
  EXPECT_EQ(
      refusal(R"({"model": {"type": "BPE", "vocab": {"a": 0},
                        "merges": ["a b"]}})"),
      "model.merges[0] must be made of tokens of the vocabulary, got \"a b\"");
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": {"a": 0},
                        "merges": []}, "pre_tokenizer": {"type": "Whitespace"}})"),
            "pre_tokenizer.type must be Sequence, Split, ByteLevel or "
            "Metaspace, got "
            "{\"type\":\"Whitespace\"}");
}

// Patterns and steps that would take for ever, or all memory (test/fuzz).
TEST(Tokenizer, RefusesWhatATextBecomes) {
  auto refusalOf = [](const char *tokenizer, const std::string &text) {
    std::string dir = testing::TempDir() + "steps";
    std::filesystem::create_directories(dir);
    std::filesystem::copy_file(
        std::string(KVC_FIXTURES "/../fuzz/corpus/tokenizer/") + tokenizer,
        dir + "/tokenizer.json",
        std::filesystem::copy_options::overwrite_existing);
    try {
      Tokenizer(dir).encode(text, false);
    } catch (const Failure &failure) {
      return std::string(failure.what());
    }
    return std::string("accepted");
  };
  std::string backtracks =
      refusalOf("backtracking.json", std::string(40, 'a') + "b");
  EXPECT_EQ(backtracks.find("the tokenizer's pattern must cut a text of 41 "
                            "bytes, got: "),
            0u)
      << backtracks;
  EXPECT_EQ(
      refusalOf("growing.json", "a")
          .find("the tokenizer's steps must not make a text 64 times as long, "
                "got "),
      0u);
}

// The pattern of Llama 3 as its tokenizer.json has it: digits in threes.
TEST(Tokenizer, SplitPattern) {
  std::string dir = testing::TempDir() + "split";
  std::filesystem::create_directories(dir);
  std::string vocab;
  for (char c = '0'; c <= '9'; ++c)
    vocab += std::string(vocab.empty() ? "" : ",") + "\"" + c +
             "\":" + std::to_string(c - '0');
  std::ofstream(dir + "/tokenizer.json")
      << R"({"model": {"type": "BPE", "ignore_merges": true, "vocab": {)"
      << vocab
      << R"(, "12": 10, "123": 11, "45": 12}, "merges": [["1","2"],["12","3"],["4","5"]]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
          {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"},
           "behavior": "Isolated", "invert": false},
          {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}})";
  Tokenizer tokenizer(dir);
  EXPECT_EQ(tokenizer.encode("12345", false), (std::vector<uint32_t>{11, 12}));
}
