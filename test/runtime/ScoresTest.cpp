#include "eval/Evaluate.h"
#include "eval/Scores.h"
#include "runtime/base/Failure.h"

#include <gtest/gtest.h>

using namespace kvc::rt;

// Expected numbers: LongBench's formulas, the packages rouge 1.0.1 and
// Levenshtein 0.27.
struct Pair {
  const char *prediction, *answer;
  double f1, rouge, edit;
};
const Pair pairs[] = {
    {"The cat sat on the mat.", "A cat was sitting on the mat", 0.666667,
     0.615385, 0.71},
    {"He said: it is 1,234 dollars!", "1234 dollars it is", 0.8, 0.4, 0.51},
    {"no overlap", "something else", 0, 0, 0.33},
    {"The report covers budgets. It was written in May. The budgets grew.",
     "Budgets grew in the report. The report was written by staff in May.",
     0.666667, 0.666667, 0.51},
    {"one two three four five one two", "one three two four one five. two one",
     0.933333, 0.8, 0.69}};

TEST(Scores, AsTheScriptsOfTheBenchmarks) {
  for (const Pair &pair : pairs) {
    SCOPED_TRACE(pair.prediction);
    EXPECT_NEAR(wordF1(pair.prediction, pair.answer), pair.f1, 1e-6);
    EXPECT_NEAR(rougeL(pair.prediction, pair.answer), pair.rouge, 1e-6);
    EXPECT_NEAR(editSimilarity(pair.prediction, pair.answer), pair.edit, 1e-9);
  }
}

static double scoreOf(Metric metric, std::vector<std::string> answers,
                      const std::string &prediction,
                      std::vector<std::string> classes = {},
                      bool firstLine = false) {
  Sample sample;
  sample.metric = metric;
  sample.answers = std::move(answers);
  sample.classes = std::move(classes);
  sample.firstLine = firstLine;
  return score(sample, prediction);
}

TEST(Scores, Strings) {
  EXPECT_EQ(scoreOf(Metric::ContainsAll, {"Alpha", "beta"}, "it is ALPHA."),
            .5);
  EXPECT_EQ(scoreOf(Metric::ContainsAny, {"Alpha", "beta"}, "it is ALPHA."), 1);
  EXPECT_EQ(scoreOf(Metric::ContainsAny, {"gamma"}, ""), 0);
  EXPECT_EQ(scoreOf(Metric::Exact, {"12."}, "12"), 0);
}

TEST(Scores, BestAnswerCounts) {
  EXPECT_EQ(scoreOf(Metric::F1, {"x", "the red house"}, "Red house"), 1);
  EXPECT_EQ(scoreOf(Metric::F1, {"red"}, "\n red\nmore words", {}, true), 1);
}

TEST(Scores, Numbers) {
  EXPECT_EQ(scoreOf(Metric::Retrieval, {"Paragraph 12"}, "Paragraph 12 or 3"),
            .5);
  EXPECT_EQ(scoreOf(Metric::Retrieval, {"Paragraph 12"}, "none"), 0);
  EXPECT_EQ(scoreOf(Metric::Count, {"7"}, "There are 7."), 1);
  EXPECT_EQ(scoreOf(Metric::Count, {"7"}, "17"), 0);
}

TEST(Scores, Classes) {
  std::vector<std::string> classes{"Sport", "Team sport", "Food"};
  EXPECT_EQ(scoreOf(Metric::Classification, {"Food"}, "Food", classes), 1);
  EXPECT_EQ(scoreOf(Metric::Classification, {"Food"}, "Food, Sport", classes),
            .5);
  EXPECT_EQ(scoreOf(Metric::Classification, {"Food"}, "Sport", classes), 0);
}

TEST(Scores, Code) {
  EXPECT_EQ(scoreOf(Metric::EditSimilarity, {"return y + 12"},
                    "\n# a comment\nreturn x + 1\nmore"),
            .88);
}

TEST(Scores, ATableIsOfResults) {
  try {
    formatTable("{}");
    FAIL() << "accepted";
  } catch (const Failure &failure) {
    EXPECT_STREQ(failure.what(), "results must be a file of kvc-run eval");
  }
}
