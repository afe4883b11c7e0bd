#include "runtime/base/JsonReader.h"

#include <gtest/gtest.h>

using namespace kvc::rt;
using Kind = JsonValue::Kind;

TEST(JsonReader, ReadsEveryKind) {
  const std::string text =
      R"( {"none": null, "yes": true, "no":false, "n": -1.5e2, "list": [1, [], {}],
           "text": "a\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00"} )";
  std::optional<JsonValue> root = readJson(text);
  ASSERT_TRUE(root && root->is(Kind::Object));
  EXPECT_TRUE(root->find("none")->is(Kind::Null));
  EXPECT_TRUE(root->find("yes")->boolean);
  EXPECT_TRUE(root->find("no")->is(Kind::Bool) && !root->find("no")->boolean);
  EXPECT_EQ(root->find("n")->number(), -150.0);
  EXPECT_EQ(root->find("n")->whole(), std::nullopt);
  EXPECT_EQ(root->find("n")->quote(), "-1.5e2");
  EXPECT_EQ(root->find("list")->items.size(), 3u);
  EXPECT_EQ(root->find("list")->items[0].whole(), 1u);
  EXPECT_EQ(root->find("text")->text, "a\"\\/\b\f\n\r\t\u00e9\u20ac\U0001f600");
  EXPECT_EQ(root->find("nothing"), nullptr);
}

TEST(JsonReader, WholeNumbersAreExact) {
  EXPECT_EQ(readJson("18446744073709551615")->whole(), UINT64_MAX);
  for (const char *text : {"18446744073709551616", "1.0", "1e3", "-0", "-1"})
    EXPECT_EQ(readJson(text)->whole(), std::nullopt) << text;
}

TEST(JsonReader, RefusesWhatIsNone) {
  for (const char *text : {"",
                           " ",
                           "nul",
                           "truefalse",
                           "1 2",
                           "01",
                           "1.",
                           ".5",
                           "+1",
                           "1e",
                           "--1",
                           "[1,]",
                           "[1 2]",
                           "[",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "{\"a\":1,}",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\u0041\"",
                           "\"\n\"",
                           "{\"a\":1,\"a\":2}",
                           "NaN"})
    EXPECT_FALSE(readJson(text)) << text;
}

TEST(JsonReader, RefusesWhatIsNestedTooDeep) {
  auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(readJson(nested(100)));
  EXPECT_FALSE(readJson(nested(101)));
  EXPECT_FALSE(readJson(std::string(1'000'000, '[')));
}

TEST(JsonReader, QuotesWholeCharacters) {
  std::string text = '"' + std::string(78, 'a') + "\u00e9\"";
  EXPECT_EQ(readJson(text)->quote(), '"' + std::string(78, 'a'));
}
