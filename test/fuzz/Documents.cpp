//===- Documents.cpp - documents that questions are asked of -------------===//

#include "test/fuzz/Target.h"

#include "eval/Tasks.h"

#include <algorithm>

using namespace kvc;

static rt::TaskOptions small() {
  rt::TaskOptions options;
  options.limit = 2;
  options.length = 200;
  options.count = [](const std::string &text) {
    return uint32_t(std::count(text.begin(), text.end(), ' ') + text.size() / 8);
  };
  return options;
}

static void expectAnswers(const std::vector<rt::Sample> &samples) {
  for (const rt::Sample &sample : samples)
    if (sample.answers.empty())
      fuzz::fault("a sample must have an answer");
}

KVC_FUZZ_TARGET(squad) {
  rt::TaskOptions options = small();
  options.squad = fuzz::file(bytes, "squad.json");
  expectAnswers(rt::makeRuler("qa_1", options));
}

KVC_FUZZ_TARGET(hotpotqa) {
  rt::TaskOptions options = small();
  options.hotpot = fuzz::file(bytes, "hotpot.json");
  expectAnswers(rt::makeRuler("qa_2", options));
}

KVC_FUZZ_TARGET(haystack) {
  rt::TaskOptions options = small();
  options.haystack = fuzz::file(bytes, "haystack.txt");
  expectAnswers(rt::makeRuler("niah_single_2", options));
}
