//===- Clearing.h - who sets to 0 what blocks add to ----------------------===//
//
// A caller's workspace holds anything, and a plan launches nothing but kernels.
// What blocks of a kernel add to (Needs::accumulates) is set to 0 by a kernel in
// front of it; kvc-plan-scratch has the buffer live from that one on, and by this
// its builder knows.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PASSES_CLEARING_H
#define KVC_PASSES_CLEARING_H

#include "dialect/KVCDialect.h"

namespace kvc {

/// True for kernels that are run whenever the policy is, with blocks for every
/// sequence.
inline bool canClear(KernelOp kernel) {
  if (kernel.listsForHeads()) // a short past has no lists
    return false;
  switch (kernel.getKind()) {
  case KernelKind::Columns:
  case KernelKind::Segments:
  case KernelKind::Rows:
  case KernelKind::Spans:
  case KernelKind::Sequence:
  case KernelKind::Nearest:
    return true;
  case KernelKind::Statistics:
  case KernelKind::Combine:
  case KernelKind::Gram:
  case KernelKind::Parts:
  case KernelKind::Norms: // has the blocks of a KV head several times
  case KernelKind::Compact:
  case KernelKind::Keys:
    return false;
  }
  return false;
}

/// The last kernel in front of `kernel` that can clear, of kind spans if there is one: others
/// have no registers to spare, or one block a sequence, which would take long. Null without
/// one.
inline KernelOp clearingKernel(KernelOp kernel) {
  KernelOp found;
  for (auto other : kernel->getParentOfType<PolicyOp>().getOps<KernelOp>()) {
    if (other == kernel)
      break;
    if (!canClear(other))
      continue;
    auto rank = [](KernelOp of) {
      return of.getKind() == KernelKind::Spans      ? 2
             : of.getKind() != KernelKind::Sequence ? 1
                                                    : 0;
    };
    if (!found || rank(other) >= rank(found))
      found = other;
  }
  return found;
}

} // namespace kvc

#endif // KVC_PASSES_CLEARING_H
