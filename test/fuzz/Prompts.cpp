//===- Prompts.cpp - files of prompts, and what scores answers -----------===//

#include "test/fuzz/Target.h"

#include "eval/Scores.h"
#include "eval/Tasks.h"

using namespace kvc;

KVC_FUZZ_TARGET(prompts) {
  for (const rt::Sample &sample :
       rt::loadJsonLines(fuzz::file(bytes, "prompts.jsonl"), {})) {
    if (sample.answers.empty())
      fuzz::fault("a sample must have an answer");
    if (sample.question.size() < 1000)
      rt::score(sample, sample.question);
    rt::score(sample, sample.answers.front().substr(0, 100));
  }
}

/// LongBench's own prompts and lengths.
KVC_FUZZ_TARGET(longbench) {
  rt::TaskOptions options;
  options.longbench = fuzz::folder();
  fuzz::file(bytes, "dataset2prompt.json");
  fuzz::file(bytes, "dataset2maxlen.json");
  std::string sample =
      R"({"dataset": "qasper", "context": "c", "input": "i", "answers": ["a"]})";
  rt::loadJsonLines(fuzz::file(sample, "longbench.jsonl"), options);
}
