//===- ExpectNone.h - faults, as failures of a test -----------------------===//

#ifndef KVC_TEST_MATRIX_EXPECTNONE_H
#define KVC_TEST_MATRIX_EXPECTNONE_H

#include "test/matrix/Judge.h"

#include <gtest/gtest.h>

namespace kvc::test {

inline void expectNone(const Faults &faults) {
  for (const std::string &fault : faults.get())
    ADD_FAILURE() << fault;
}

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_EXPECTNONE_H
