//===- Fuzzer.cpp - libFuzzer's entry points -----------------------------===//
//
//   KVC_FUZZ_TARGET=manifest fuzz [libFuzzer's options] CORPUS...
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Target.h"

#include <cstdint>
#include <cstdlib>

using namespace kvc;

static const fuzz::Target *target;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  const char *name = std::getenv("KVC_FUZZ_TARGET");
  target = fuzz::findTarget(name ? name : "");
  if (!target)
    fuzz::fault("KVC_FUZZ_TARGET must name a target");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::run(*target, {reinterpret_cast<const char *>(data), size});
  return 0;
}

// LLVM's libraries are not instrumented: containers that they fill and arenas
// that they hand out would be reported, and what they keep is no leak.
extern "C" const char *__asan_default_options() {
  return "detect_container_overflow=0:allow_user_poisoning=0:detect_leaks=0";
}
