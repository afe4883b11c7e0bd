//===- HeldRows.h - a problem on a cache of rows --------------------------===//
//
// Each head has rows of some tokens, as evictions leave them behind.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_MATRIX_HELDROWS_H
#define KVC_TEST_MATRIX_HELDROWS_H

#include "dialect/reference/Interpreter.h"
#include "test/matrix/Judge.h"

namespace kvc::test {

/// [Hkv][T]: the tokens that each head has a row of, anything from none to all.
std::vector<std::vector<bool>> drawRows(const reference::Layer &layer,
                                        uint64_t seed);

/// What kernels have kept of rows, said of tokens, so that it can be judged as a
/// prompt's is: indices are positions, scores [Hkv, past], NaN where a head has ranked
/// no row of a token.
rt::KeptSequence tokensOf(const Problem &problem, const rt::KeptSequence &got,
                          const reference::Kept &want, Faults &faults);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_HELDROWS_H
