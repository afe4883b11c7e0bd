//===- MergingPolicy.h - a policy that merges, for tests of judges --------===//

#ifndef KVC_TEST_RANDOM_MERGINGPOLICY_H
#define KVC_TEST_RANDOM_MERGINGPOLICY_H

#include <string>

namespace kvc::random {

/// Keeps what has the longest rows of `side` and merges the rest by its keys before
/// RoPE; `behind` is what kvc.keep has behind the merge, where %s are the norms, %w is
/// 3 and %most 25.
inline std::string mergingPolicy(const std::string &side,
                                 const std::string &behind) {
  return R"(
  kvc.policy @p {
    %w = arith.constant 3 : index
    %most = arith.constant 25 : index
    %least = arith.constant 0.2 : f32
    %s = kvc.norm l2 )" +
         side + R"( : tensor<?x?xf32>
    %n = kvc.allocate uniform : tensor<?xi32>
    %k = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
    %t = arith.constant true
    %all = kvc.broadcast %t : i1 to tensor<?x?xi1>
    %rest = arith.cmpi ult, %k, %all : tensor<?x?xi1>
    %d = kvc.nearest %rest in %k of raw_key at_least(%least) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
    kvc.keep %k merge(%d, %s : tensor<?x?xi32>, tensor<?x?xf32>) )" +
         behind + R"( : tensor<?x?xi1>
  })";
}

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_MERGINGPOLICY_H
