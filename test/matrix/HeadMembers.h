//===- HeadMembers.h - what the rows of one head represent ----------------===//

#ifndef KVC_TEST_MATRIX_HEADMEMBERS_H
#define KVC_TEST_MATRIX_HEADMEMBERS_H

#include <cstdint>
#include <random>
#include <vector>

namespace kvc::test {

/// In ascending order of position.
struct HeadMembers {
  std::vector<int32_t> rows, positions;
  std::vector<float> norms;
};

/// Of a head with rows at these of `length` positions: each row's own token, and one in
/// three of those that have no row.
HeadMembers drawMembers(const std::vector<int32_t> &rows, int32_t length,
                        std::mt19937 &random);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_HEADMEMBERS_H
