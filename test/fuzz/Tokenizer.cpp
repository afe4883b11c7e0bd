//===- Tokenizer.cpp - tokenizer.json, and texts through it --------------===//

#include "test/fuzz/Target.h"

#include "runtime/base/Failure.h"
#include "executor/model/Tokenizer.h"

using namespace kvc;

KVC_FUZZ_TARGET(tokenizer) {
  fuzz::file(bytes, "tokenizer.json");
  rt::Tokenizer tokenizer(fuzz::folder());
  for (const char *text :
       {"", "the cat sat", "  a\tb\n\nc  ", "\xc3\xa9t\xc3\xa9 \xe2\x82\xac 1234",
        "<s>x</s> <|endoftext|>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "\xf0\x9f\x99\x82\xcc\x81 we're IT'S"})
    try {
      tokenizer.decode(tokenizer.encode(text, true));
    } catch (const rt::Failure &) {
      // A character may have no token.
    }
  tokenizer.decode({0, 1, 2, 3, 255, 256, UINT32_MAX});
}
