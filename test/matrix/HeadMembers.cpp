//===- HeadMembers.cpp - what the rows of one head represent --------------===//

#include "test/matrix/HeadMembers.h"

#include <algorithm>

using namespace kvc::test;

HeadMembers kvc::test::drawMembers(const std::vector<int32_t> &rows,
                                   int32_t length, std::mt19937 &random) {
  HeadMembers members;
  for (int32_t t = 0; t < length && !rows.empty(); ++t) {
    auto own = std::ranges::find(rows, t);
    bool isRow = own != rows.end();
    if (!isRow && random() % 3)
      continue;
    members.rows.push_back(isRow ? int32_t(own - rows.begin())
                                 : int32_t(random() % rows.size()));
    members.positions.push_back(t);
    members.norms.push_back(0.5f + float(random() % 100) / 50);
  }
  return members;
}
