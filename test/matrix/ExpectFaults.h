//===- ExpectFaults.h - a judge's faults, as a test expects them ----------===//

#ifndef KVC_TEST_MATRIX_EXPECTFAULTS_H
#define KVC_TEST_MATRIX_EXPECTFAULTS_H

#include "test/matrix/Judge.h"

#include <gtest/gtest.h>

namespace kvc::test {

inline void expectNone(const Faults &faults) {
  for (const std::string &fault : faults.get())
    ADD_FAILURE() << fault;
}

/// A line each.
inline std::string textOf(const Faults &faults) {
  std::string all;
  for (const std::string &line : faults.get())
    all += line + "\n";
  return all;
}

/// That faults, in such a text, say this of a result that is damaged.
inline void expectFault(const std::string &text, const std::string &fault) {
  EXPECT_NE(text.find(fault), std::string::npos)
      << "not '" << fault << "' but '" << text << "'";
}

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_EXPECTFAULTS_H
