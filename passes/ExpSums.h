//===- ExpSums.h - sums of exponentials below a maximum -------------------===//

#ifndef KVC_PASSES_EXPSUMS_H
#define KVC_PASSES_EXPSUMS_H

#include "dialect/KVCDialect.h"

namespace kvc {

/// Makes each sum over tokens of exp(x - max of x), and that maximum, from the same parts.
void joinExpSums(PolicyOp policy);

} // namespace kvc

#endif // KVC_PASSES_EXPSUMS_H
