//===- CountMass.h - how many of the best scores leave little behind ------===//

#ifndef KVC_CODEGEN_KERNELS_COUNTMASS_H
#define KVC_CODEGEN_KERNELS_COUNTMASS_H

#include "codegen/kernels/RowBlock.h"

namespace kvc {

/// kvc.count_mass in a rows kernel: finds the key of the best score that is left out,
/// three digits of it one behind the other, by the sums of the scores of each digit.
///
/// Scores of one digit, the highest 11 bits of a key, have one exponent, so they add up
/// as integers, in any order, and the sums of digits as floats in the order of keys:
/// the same on every target, below 2^24 tokens. Made at the top of a kernel: takes 32 KiB
/// of shared memory.
class MassCounter {
public:
  MassCounter(KernelBuilder &k, ThreadBlock &block);

  /// The op's count for the block's head, i32. The whole block calls it; it has barriers
  /// inside.
  Expr count(RowBlock &r, CountMassOp op);

private:
  static constexpr int64_t bins = digitBins;

  /// What is known of the key: its first bits; of the scores whose key begins with less
  /// the sum; how many begin with these bits; and of the thread's share of digits, how
  /// many scores begin with more, f32.
  struct Place {
    Expr prefix, mass, equal, above;
    int64_t known = 0;
  };
  Place descend(const Place &place, RowBlock &r, CountMassOp op, Expr least);
  void fill(const Place &place, int64_t digit, RowBlock &r, CountMassOp op);
  Expr massOf(Expr key, int64_t rest, Expr count, llvm::ArrayRef<Expr> parts);
  Expr sumInFront(Expr value);

  KernelBuilder &k;
  ThreadBlock &block;
  /// How many scores have a digit, and the sums of pieces of the bits behind it.
  Buffer counts;
  llvm::SmallVector<Buffer> pieces;
  Buffer warpTotals;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_COUNTMASS_H
