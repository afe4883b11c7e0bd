//===- Trial.h - one policy, compiled, run and judged ---------------------===//

#ifndef KVC_TEST_RANDOM_TRIAL_H
#define KVC_TEST_RANDOM_TRIAL_H

#include "test/random/Cases.h"
#include "test/random/Compile.h"

#include <functional>

namespace kvc::random {

struct TrialOptions {
  /// Where libraries are put; a folder of the caller's.
  std::string folder;
  std::string ptxas;
  bool ptx = true;
  kvc_target_kind target = KVC_HOST;
};

struct Verdict {
  /// "ok", "refused", or what is wrong: "tokens", "threads", "ptx" ...
  std::string kind = "ok";
  /// The refusal, or the faults, a line each.
  std::string message;
  Cells cells;
  double compileSeconds = 0, ptxSeconds = 0, runSeconds = 0, judgeSeconds = 0;
  size_t disturbedRuns = 0;

  bool isFault() const { return kind != "ok" && kind != "refused"; }
};

/// `say` is told what comes next, so that a crash has a name.
Verdict tryPolicy(const std::string &policy, const Case &c,
                  const TrialOptions &options,
                  const std::function<void(const char *)> &say);

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_TRIAL_H
