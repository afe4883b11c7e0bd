//===- CommandLine.cpp - words of the command line -----------------------===//

#include "test/fuzz/Target.h"

#include "executor/eviction/Budget.h"
#include "runtime/base/Extent.h"
#include "runtime/base/Failure.h"

using namespace kvc;

KVC_FUZZ_TARGET(budget) {
  std::string text(bytes);
  for (bool share : {false, true})
    try {
      rt::Budget budget = share ? rt::Budget::parse("", text.empty() ? "0" : text)
                                : rt::Budget::parse(text.empty() ? "0" : text, "");
      uint32_t kept = budget.of(1000);
      if (kept == 0 || (share && kept > 1000))
        fuzz::fault("a budget must be at least 1, and a share at most all");
    } catch (const rt::Failure &) {
    }
}

KVC_FUZZ_TARGET(extent) {
  rt::Extent(std::string(bytes)).evaluate({1, 32, 8, 128, 1000, 64});
}
