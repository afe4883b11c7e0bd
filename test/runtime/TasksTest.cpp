#include "eval/Tasks.h"

#include "runtime/base/Failure.h"
#include "executor/model/Tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

using namespace kvc::rt;

class Tasks : public testing::Test {
public:
  Tasks() : tokenizer(KVC_MODELS "/needle") {
    options.count = [this](const std::string &text) {
      return uint32_t(tokenizer.encode(text, false).size());
    };
    options.limit = 3;
    options.length = 3000;
  }
  std::string file(const std::string &name, const std::string &text) {
    std::string path = testing::TempDir() + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string refusal(const std::string &task) {
    try {
      loadTask(task, options);
    } catch (const Failure &failure) {
      return failure.what();
    }
    return "accepted";
  }

  Tokenizer tokenizer;
  TaskOptions options;
};

// Every kind fills the length, hides its answers in the context, and follows
// from the seed.
TEST_F(Tasks, RulerKinds) {
  ASSERT_EQ(rulerKinds().size(), 13u);
  for (const std::string &kind : rulerKinds()) {
    SCOPED_TRACE(kind);
    options.seed = 1;
    auto samples = makeRuler(kind, options), again = makeRuler(kind, options);
    options.seed = 2;
    auto other = makeRuler(kind, options);
    ASSERT_EQ(samples.size(), 3u);
    std::set<std::string> ids;
    for (size_t i = 0; i < 3; ++i) {
      const Sample &sample = samples[i];
      ids.insert(sample.id);
      EXPECT_EQ(sample.context, again[i].context);
      EXPECT_NE(sample.context, other[i].context);
      EXPECT_GT(sample.maxNewTokens, 0u);
      for (const std::string &answer : sample.answers)
        EXPECT_NE(sample.context.find(answer), std::string::npos) << answer;
      uint32_t tokens = options.count(sample.context) +
                        options.count(sample.question) + sample.maxNewTokens;
      EXPECT_LE(tokens, options.length);
      EXPECT_GT(tokens, options.length * 4 / 5);
    }
    EXPECT_EQ(ids.size(), 3u);
  }
  EXPECT_EQ(makeRuler("niah_multivalue", options)[0].answers.size(), 4u);
  EXPECT_EQ(makeRuler("niah_multiquery", options)[0].answers.size(), 4u);
  EXPECT_EQ(makeRuler("vt", options)[0].answers.size(), 5u);
  EXPECT_EQ(makeRuler("cwe", options)[0].answers.size(), 10u);
  EXPECT_EQ(makeRuler("fwe", options)[0].answers.size(), 3u);
}

// The words that are asked for are those that are most frequent.
TEST_F(Tasks, CommonWordsAreCommon) {
  for (const char *kind : {"cwe", "fwe"}) {
    Sample sample = makeRuler(kind, options)[0];
    std::map<std::string, int> counts;
    std::istringstream stream(sample.context);
    for (std::string word; stream >> word;)
      if (word != "..." && std::islower(uint8_t(word[0])))
        ++counts[word];
    int least = 1 << 30;
    for (const std::string &answer : sample.answers) {
      least = std::min(least, counts[answer]);
      counts.erase(answer);
    }
    // The introduction is English and says "the" and "are" a few times.
    for (auto &[word, count] : counts)
      EXPECT_LT(count, least) << kind << ": " << word;
  }
}

TEST_F(Tasks, RulerFiles) {
  options.squad = file("squad.json", R"({"data": [{"paragraphs": [
    {"context": "Ann has a dog.", "qas": [
      {"question": "What has Ann?", "answers": [{"text": "a dog"}]}]},
    {"context": "Bob has a cat.", "qas": []}]}]})");
  Sample sample = makeRuler("qa_1", options)[0];
  EXPECT_NE(sample.question.find("What has Ann?"), std::string::npos);
  EXPECT_EQ(sample.answers[0], "a dog");
  EXPECT_NE(sample.context.find("Bob has a cat."), std::string::npos);
  options.hotpot = file("hotpot.json", R"([{"question": "Q?", "answer": "yes",
    "context": [["A", ["One."]], ["B", ["Two."]], ["C", ["Three."]]],
    "supporting_facts": [["A", 0], ["C", 0]]}])");
  sample = makeRuler("qa_2", options)[0];
  EXPECT_NE(sample.context.find("Three."), std::string::npos);
  options.hotpot = options.squad;
  EXPECT_NE(refusal("ruler:qa_2").find("must be a JSON file of HotpotQA"),
            std::string::npos);
  options.haystack = file("hay.txt", "Hay is dry. Is it? It is!");
  EXPECT_NE(makeRuler("niah_single_2", options)[0].context.find("Is it?"),
            std::string::npos);
}

TEST_F(Tasks, RulerRefusals) {
  EXPECT_NE(refusal("ruler:nothing").find("got 'nothing'"), std::string::npos);
  options.length = 200;
  EXPECT_NE(refusal("ruler:cwe").find("length must be at least"),
            std::string::npos);
}

TEST_F(Tasks, LongBench) {
  options.limit = 0;
  std::string path = file(
      "lb.jsonl",
      R"({"dataset": "trec", "context": "C", "input": "I", "answers": ["Food"], "all_classes": ["Food", "Sport"]}

{"dataset": "qasper", "context": "C2", "input": "I2", "answers": ["x", "y"]}
)");
  auto samples = loadTask(path, options);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].metric, Metric::Classification);
  EXPECT_TRUE(samples[0].firstLine);
  EXPECT_EQ(samples[1].id, path + ":3");
  options.longbench = testing::TempDir() + "longbench";
  std::filesystem::create_directories(options.longbench);
  std::ofstream(options.longbench + "/dataset2prompt.json")
      << R"({"trec": "T {context} U {input} V", "qasper": "{context}{input}"})";
  std::ofstream(options.longbench + "/dataset2maxlen.json")
      << R"({"trec": 5, "qasper": 6})";
  samples = loadTask(path, options);
  EXPECT_EQ(samples[0].context, "T C");
  EXPECT_EQ(samples[0].question, " U I V");
  EXPECT_EQ(samples[1].maxNewTokens, 6u);
}

TEST_F(Tasks, BrokenLinesAreNamed) {
  std::string good =
      R"({"task": "t", "context": "c", "question": "q", "answer": "a"})";
  auto broken = [&](const std::string &line) {
    return refusal(file("broken.jsonl", good + "\n" + line + "\n"));
  };
  EXPECT_NE(broken("{").find("broken.jsonl:2: must be a JSON object, got '{'"),
            std::string::npos);
  EXPECT_NE(
      broken(R"({"task": "t"})").find("broken.jsonl:2: context is missing"),
      std::string::npos);
  EXPECT_NE(broken(R"({"task": 7})")
                .find("broken.jsonl:2: task must be a text, got 7"),
            std::string::npos);
  EXPECT_NE(broken(R"({"dataset": "dureader"})")
                .find("broken.jsonl:2: dataset must be"),
            std::string::npos);
  EXPECT_NE(refusal(file("empty.jsonl", "\n")).find("at least 1 prompt"),
            std::string::npos);
  EXPECT_NE(refusal("nothing.jsonl").find("cannot read"), std::string::npos);
}

TEST_F(Tasks, TextIsCutIntoPieces) {
  std::string text;
  for (int i = 0; i < 900; ++i)
    text += "The farmer carried the letter " + std::to_string(i) + ". ";
  options.limit = 0;
  options.length = 1000;
  auto samples = loadTask("text:" + file("text.txt", text), options);
  ASSERT_GT(samples.size(), 5u);
  std::string joined;
  for (const Sample &sample : samples) {
    for (const std::string &piece : {sample.context, sample.answers[0]}) {
      EXPECT_LE(options.count(piece), 500u);
      joined += piece;
    }
    if (&sample != &samples.back())
      EXPECT_GT(options.count(sample.context), 450u);
  }
  EXPECT_EQ(joined, text.substr(0, joined.size()));
  // No spaces: pieces end between characters.
  std::string dense;
  for (int i = 0; i < 600; ++i)
    dense += "\xe6\x97\xa5";
  samples = loadTask("text:" + file("dense.txt", dense), options);
  EXPECT_EQ(samples[0].context.size() % 3, 0u);
  EXPECT_GT(options.count(samples[0].context), 490u);
  EXPECT_NE(refusal("text:" + file("bad.txt", "a\xff"))
                .find("bad.txt: must be UTF-8, got byte 0xff at 1"),
            std::string::npos);
  EXPECT_NE(refusal("text:" + file("short.txt", "one two"))
                .find("must have more than 500 tokens"),
            std::string::npos);
}
