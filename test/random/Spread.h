//===- Spread.h - a margin by Monte Carlo arithmetic ----------------------===//

#ifndef KVC_TEST_RANDOM_SPREAD_H
#define KVC_TEST_RANDOM_SPREAD_H

#include "test/matrix/Judge.h"

#include <functional>

namespace kvc::random {

/// What may differ is what differs among runs of the reference that are
/// disturbed like fp32 (Noise.h). Runs are made where there is a doubt only: a
/// few, and where these do not explain it some more, disturbed more.
class Spread : public test::Margin {
public:
  /// A disturbed run; fails where the reference does.
  using Run = std::function<mlir::FailureOr<reference::Kept>(uint64_t seed,
                                                             double amplitude)>;
  Spread(const reference::Kept &want, Run run) : want(want), run(run) {}

  bool keepsEither(int64_t head, int64_t token) override;
  bool keepsSoMany(int64_t head, size_t count) override;
  bool scoreMayBe(int64_t head, int64_t token, float got) override;
  bool searchesEither(int64_t head, int64_t token) override;
  bool takesEither(int64_t head, int64_t token) override;

  size_t runsMade() const { return runs.size(); }

private:
  const reference::Kept &want;
  Run run;
  std::vector<reference::Kept> runs;

  /// True if a run of either round makes it hold.
  bool any(llvm::function_ref<bool(const reference::Kept &)> holds);
  void makeRuns(size_t round);
  bool marksEither(int64_t head, int64_t token,
                   reference::Tensor reference::Kept::Merge::*mask);
};

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_SPREAD_H
