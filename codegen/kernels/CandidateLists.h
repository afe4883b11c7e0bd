//===- CandidateLists.h - digits counted and candidates listed ------------===//
//
// What each span's block adds to a selection over blocks (Candidates.h). The whole block
// calls each of these; both have barriers inside.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_CANDIDATELISTS_H
#define KVC_CODEGEN_KERNELS_CANDIDATELISTS_H

#include "codegen/kernels/HeadShares.h"
#include "codegen/kernels/RadixSelect.h"
#include "codegen/kernels/RowBlock.h"

namespace kvc {

/// kvc.count_digits for the block's span; sets the NaN bit of the status.
void countDigits(RowBlock &row, RadixSelect &radix, CountDigitsOp op);

/// kvc.list_candidates for the block's span: reads the digits from `digits`.
/// `shares`: of a cache of rows, where it is for all heads together; else null. `isListed`:
/// whether each head's are.
void listCandidates(RowBlock &row, RadixSelect &radix, ListCandidatesOp op,
                    const Buffer &digits, HeadShares *shares, Expr isListed);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_CANDIDATELISTS_H
