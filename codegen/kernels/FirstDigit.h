//===- FirstDigit.h - the bins that a selection counts scores in ----------===//
//
// A selection looks at keys digit by digit (RadixSelect.h). All scores have a first
// digit, and those that share it with the threshold are walked again; so it must tell
// scores apart where scores are, and the highest bits of a float do not: most exponents
// never occur. An octave, [2^k, 2^(k+1)), has 16 bins where |score| is
//
//   of positive scores   from 2^-49 on and below 2^15
//   of negative scores   from 2^-33 on and below 2^15
//
// and outside two octaves share one. Bins are in the order of keys, and each has all
// keys that begin with certain bits. Which scores fall where is a matter of speed
// alone: any are selected exactly.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_FIRSTDIGIT_H
#define KVC_CODEGEN_KERNELS_FIRSTDIGIT_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// The bin of a key (orderedKey), below digitBins; i32.
Expr firstDigit(Expr key);

/// The keys that a digit has: those whose bits above the lowest `rest` are `prefix`.
struct KeyRange {
  Expr prefix, rest; // i32
};
KeyRange keysOfFirstDigit(KernelBuilder &k, Expr digit);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_FIRSTDIGIT_H
