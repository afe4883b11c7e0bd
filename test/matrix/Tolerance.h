//===- Tolerance.h - a fixed margin around the reference's scores ---------===//

#ifndef KVC_TEST_MATRIX_TOLERANCE_H
#define KVC_TEST_MATRIX_TOLERANCE_H

#include "test/matrix/Judge.h"

namespace kvc::test {

/// Scores of fp32 kernels are sums of some hundred terms in another order than
/// the reference's: 2^-24 each, with room. Rounding weights to the model's type
/// moves single weights by a unit of that type when they lie on a boundary.
inline double slackOf(bool rounded, kvc_dtype dtype) {
  return !rounded || dtype == KVC_F32 ? 3e-5 : dtype == KVC_F16 ? 1e-3 : 4e-3;
}

/// Tokens may be taken for one another if their scores lie within `slack` of
/// the lowest kept one. For policies whose scores are what fp32 can hold.
class Tolerance : public Margin {
public:
  /// `swap`: how far a score may move where values that fp32 cannot tell apart
  /// are ranked: two neighbours swap, seldom three.
  Tolerance(const reference::Kept &want, double slack, int swap);

  bool keepsEither(int64_t head, int64_t token) override;
  bool keepsSoMany(int64_t, size_t) override { return false; }
  bool scoreMayBe(int64_t head, int64_t token, float got) override;
  bool searchesEither(int64_t head, int64_t token) override;

private:
  const reference::Kept &want;
  const double slack;
  const int swap;
  /// Scores of each head that have moved by a rank.
  std::vector<int64_t> swapped;

  bool near(int64_t head, int64_t token, double lowest, double most) const;
};

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_TOLERANCE_H
