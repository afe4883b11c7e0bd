//===- TableAllocation.h - budgets of a whole model by a table ------------===//

#ifndef KVC_CODEGEN_KERNELS_TABLEALLOCATION_H
#define KVC_CODEGEN_KERNELS_TABLEALLOCATION_H

#include "codegen/kernels/ThreadBlock.h"

namespace kvc {

/// kvc.allocate_table by one block. All heads of all layers are walked for each
/// head of the running layer; nothing is stored for them.
///
/// Exact in 128-bit integers. A head's weight is the sum of its group's entries
/// in units of 2^-47 of the largest; smaller bits are cut off. The runtime
/// keeps layers * Hkv at 2^14 and budgets below 2^21, so that no product
/// overflows.
///
/// Made at the top of a kernel: takes 8 KiB of shared memory and a little.
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
  Expr wide(Expr index);
  Expr blockSum(Expr value);

  /// Numbers of 128 bits in shared memory.
  struct Halves {
    Buffer low, high;
  };
  void store(Expr value, const Halves &to, Expr at);
  Expr sum(const Halves &of, Expr from, Expr end, int64_t step);

  KernelBuilder &k;
  ThreadBlock &block;
  static constexpr int64_t groups = 16; // of threads
  Halves ofThreads, ofGroups;
  Expr leastExponent;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_TABLEALLOCATION_H
