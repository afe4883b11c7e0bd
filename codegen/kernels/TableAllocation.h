//===- TableAllocation.h - budgets of a whole model by a table ------------===//

#ifndef KVC_CODEGEN_KERNELS_TABLEALLOCATION_H
#define KVC_CODEGEN_KERNELS_TABLEALLOCATION_H

#include "codegen/kernels/ThreadBlock.h"

namespace kvc {

/// kvc.allocate_table by one block, a thread for each KV head of all layers. Nothing is
/// stored of them: what they have is computed again for each sum.
///
/// Exact in 128-bit integers. A head's weight is the sum of its group's entries
/// in units of 2^-47 of the largest; smaller bits are cut off. The runtime
/// keeps layers * Hkv at 2^14 and budgets below 2^21, so that no product
/// overflows.
///
/// Made at the top of a kernel: takes half a KiB of shared memory. Barriers: two for each
/// sum over all heads, of which there are four and two for each time that shares are cut,
/// and more for every eight heads of the layer.
class TableAllocation {
public:
  TableAllocation(KernelBuilder &k, ThreadBlock &block);

  /// The kernel has the arguments table, layer, layers and status.
  ///
  /// Calls `store(head, count)` for each KV head of the running layer, by every
  /// thread. Every thread of the block must call it. `base` and `shared`
  /// are index: tokens that every head has, and that the table shares out.
  void allocate(const SequenceScalars &s, Expr base, Expr shared,
                llvm::function_ref<void(Expr head, Expr count)> store);

private:
  /// Of a KV head, numbered over all layers.
  Expr weightOf(Expr head);
  /// 128 bits.
  Expr wide(Expr index);
  /// So many bits of an integer: with zeros above it, its lowest ones.
  Expr extend(Expr value, int64_t bits);
  Expr lowest(Expr value, int64_t bits);
  /// Of every thread's number of 128 bits.
  Expr blockSum(Expr value);
  Expr warpSum(Expr value);

  /// Numbers of 128 bits in shared memory.
  struct Halves {
    Buffer low, high;
  };
  void store(Expr value, const Halves &to, Expr at);
  Expr load(const Halves &from, Expr at);

  KernelBuilder &k;
  ThreadBlock &block;
  static constexpr int64_t together = 8; // heads of the layer
  Halves ofWarps, remainders;
  Buffer floors; // i32
  Expr leastExponent;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_TABLEALLOCATION_H
