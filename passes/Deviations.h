//===- Deviations.h - standard deviations over tokens, by parts -----------===//

#ifndef KVC_PASSES_DEVIATIONS_H
#define KVC_PASSES_DEVIATIONS_H

#include "passes/Stages.h"

namespace kvc {

/// Makes each deviation over tokens of what a columns kernel makes from parts. True where
/// there is one: stages are others then.
bool splitDeviations(PolicyOp policy, const Stages &stages);

} // namespace kvc

#endif // KVC_PASSES_DEVIATIONS_H
