#include "runtime/base/Failure.h"
#include "executor/io/Json.h"

#include <gtest/gtest.h>

using namespace kvc::rt;

TEST(Failure, IsOneLine) {
  EXPECT_EQ(fail(KVC_BAD_ARGUMENT, "{}: got '{}'", "a\nb", "\x1b[31m\r\t").what(),
            std::string("a\\nb: got '\\x1b[31m\\x0d\\t'"));
  // What some readers of lines take for an end, too.
  EXPECT_EQ(oneLine("a\xc2\x85" "b\xe2\x80\xa8" "c\xe2\x80\xa9" "d\x0c"),
            "a\\u0085b\\u2028c\\u2029d\\x0c");
  EXPECT_EQ(oneLine("caf\xc3\xa9 \xe2\x82\xac \xff"),
            "caf\xc3\xa9 \xe2\x82\xac \xff");
  EXPECT_EQ(oneLine(std::string(50'000, 'x')).size(), 10'005u);
}

TEST(Json, RefusesWhatRecursionCannotStand) {
  auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_FALSE(parseJson(nested(100)).is_discarded());
  EXPECT_TRUE(parseJson(nested(101)).is_discarded());
  EXPECT_TRUE(parseJson(std::string(1'000'000, '[')).is_discarded());
  // Brackets of a text are none.
  EXPECT_TRUE(parseJson("\"" + std::string(500, '[') + "\\\"[\"").is_string());
  EXPECT_TRUE(parseJson("{").is_discarded());
}

TEST(Json, QuotesWholeCharacters) {
  EXPECT_EQ(quote(std::string(79, 'x')).size(), 80u); // with the first mark
  std::string euros;
  for (int i = 0; i < 100; ++i)
    euros += "\xe2\x82\xac";
  EXPECT_EQ(excerpt(euros).size(), 78u);
  EXPECT_EQ(quote(nlohmann::json{{"a", nullptr}}), "{\"a\":null}");
}
