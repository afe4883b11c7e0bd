//===- AttendJudge.cpp - what attention must give -------------------------===//

#include "test/runtime/AttendJudge.h"

#include <algorithm>

namespace kvc::test {

std::pair<std::vector<double>, double> judged(const Call &call,
                                              const std::vector<Seen> &keys,
                                              size_t i, int32_t length) {
  int64_t position = int64_t(length) - call.n + int64_t(i % call.n);
  double scale = call.args.scale != 0 ? double(call.args.scale)
                                      : 1 / std::sqrt(double(call.dim));
  std::vector<double> logits, out(call.dim);
  double most = none, sum = 0;
  for (const Seen &key : keys) {
    double logit = 0;
    for (uint32_t d = 0; d < call.dim; ++d)
      logit += double(call.q[i][d]) * key.k[d];
    logits.push_back(key.position <= position ? logit * scale : none);
    most = std::max(most, logits.back());
  }
  if (most == none)
    return {out, none};
  for (size_t r = 0; r < keys.size(); ++r) {
    double weight = std::exp(logits[r] - most);
    sum += weight;
    for (uint32_t d = 0; weight > 0 && d < call.dim; ++d)
      out[d] += weight * keys[r].v[d];
  }
  for (double &x : out)
    x /= sum;
  return {out, most + std::log(sum)};
}

} // namespace kvc::test
