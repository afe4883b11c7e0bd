//===- Text.cpp - texts through the tokenizers of families ---------------===//

#include "test/fuzz/Target.h"

#include "runtime/base/Failure.h"
#include "eval/Tasks.h"
#include "executor/model/Tokenizer.h"

#include <vector>

using namespace kvc;

static const std::vector<rt::Tokenizer> &tokenizers() {
  static const std::vector<rt::Tokenizer> all = [] {
    std::vector<rt::Tokenizer> some;
    for (const char *name : {"gpt2", "llama2", "llama3", "qwen2", "unknown"})
      some.emplace_back(std::string(KVC_FIXTURES "/tokenizers/") + name);
    return some;
  }();
  return all;
}

/// A prompt.
KVC_FUZZ_TARGET(text) {
  for (const rt::Tokenizer &tokenizer : tokenizers())
    tokenizer.decode(tokenizer.encode(bytes, true));
}

/// The file of `text:FILE`, cut into samples.
KVC_FUZZ_TARGET(perplexity) {
  rt::TaskOptions options;
  options.length = 16;
  options.count = [](const std::string &text) {
    return uint32_t(tokenizers()[1].encode(text, false).size());
  };
  rt::loadText(fuzz::file(bytes, "text.txt"), options);
}
