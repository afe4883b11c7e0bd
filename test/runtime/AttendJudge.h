//===- AttendJudge.h - what attention must give ---------------------------===//
//
// softmax(scale q k^T) v in double.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_RUNTIME_ATTENDJUDGE_H
#define KVC_TEST_RUNTIME_ATTENDJUDGE_H

#include "test/runtime/AttendCall.h"

#include <cmath>
#include <limits>

namespace kvc::test {

inline constexpr double none = -std::numeric_limits<double>::infinity();

/// Output and natural log-sum-exp of row i of the call, plainly.
std::pair<std::vector<double>, double> judged(const Call &call,
                                              const std::vector<Seen> &keys,
                                              size_t i, int32_t length);

inline std::vector<Seen> rowsOf(const Head &head) {
  std::vector<Seen> rows;
  for (size_t r = 0; r < head.k.size(); ++r)
    rows.push_back({head.positions[r],
                    {head.k[r].begin(), head.k[r].end()},
                    {head.v[r].begin(), head.v[r].end()}});
  return rows;
}

inline double spacing(kvc_dtype dtype) {
  return dtype == KVC_F32 ? 0x1p-23 : dtype == KVC_F16 ? 0x1p-10 : 0x1p-7;
}

/// On a GPU weights are rounded to the cache's type before they multiply values.
inline double weightRounding(kvc_dtype dtype) {
  return dtype == KVC_F32 ? 0 : spacing(dtype) / 2;
}

/// All of a call's rows. `keysOf(s, g)` are what a head's queries may see. `products`:
/// what weights and members' keys were rounded to, 0 if they are f32.
template <typename KeysOf>
void expectRight(const Call &call, const Cache &cache, KeysOf keysOf,
                 double products = 0) {
  uint32_t group = call.qHeads / cache.heads;
  for (uint32_t s = 0; s < cache.batch; ++s)
    for (uint32_t g = 0; g < cache.heads; ++g) {
      std::vector<Seen> keys = keysOf(s, g);
      for (uint32_t row = 0; row < group * call.n; ++row) {
        size_t i = (size_t(s) * call.qHeads + g * group) * call.n + row;
        auto [want, lse] = judged(call, keys, i, cache.lengths[s]);
        auto got = call.outRow(i);
        double wantLse = call.args.lse_base_2 ? lse / std::log(2.0) : lse;
        if (lse == none)
          EXPECT_EQ(call.lse[i], float(none));
        else
          EXPECT_NEAR(call.lse[i], wantLse,
                      (2e-6 + products) * (1 + std::abs(wantLse)));
        for (uint32_t d = 0; d < call.dim; ++d) {
          double most = 5e-6 + 8 * products +
                        spacing(call.args.out_dtype) * std::abs(want[d]);
          ASSERT_NEAR(got[d], want[d], most)
              << "sequence " << s << " head " << g << " row " << row << " of "
              << keys.size() << " keys, dim " << d;
        }
      }
    }
}

inline void expectRight(const Call &call, const Cache &cache,
                        double products = 0) {
  expectRight(
      call, cache,
      [&](uint32_t s, uint32_t g) { return rowsOf(cache.head(s, g)); },
      products);
}

/// Calls body(call, cache, laid) for each dimension, type and some groups; numbers of
/// queries, layouts, scales and types of what comes out take turns.
template <typename Body>
void forShapes(Random &random, std::initializer_list<uint32_t> dims,
               int32_t most, Body body) {
  uint32_t number = 0;
  for (uint32_t dim : dims)
    for (kvc_dtype dtype : dtypes)
      for (uint32_t group : {1, 4, 7}) {
        uint32_t n = number++ % 5 + 1;
        Cache cache = randomCache(random, 2, 2, dim, dtype, most);
        Call call(random, cache, group, n, number % 2 ? KVC_F32 : dtype,
                  number % 3 == 0);
        call.args.lse_base_2 = number % 2;
        call.args.scale = number % 4 ? 0 : number % 8 ? 0.3f : -0.3f;
        Layout layout = layouts[number % std::size(layouts)];
        Laid laid(cache, layout, 4);
        SCOPED_TRACE(testing::Message()
                     << "dim " << dim << " dtype " << dtype << " group "
                     << group << " n " << n << " layout " << int(layout));
        ASSERT_NO_FATAL_FAILURE(body(call, cache, laid));
      }
}

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_ATTENDJUDGE_H
