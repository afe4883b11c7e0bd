//===- RadixSelect.h - exact top-k of one row by one block ----------------===//

#ifndef KVC_CODEGEN_KERNELS_RADIXSELECT_H
#define KVC_CODEGEN_KERNELS_RADIXSELECT_H

#include "codegen/kernels/ThreadBlock.h"

namespace kvc {

/// Which items are selected: those whose key is above `threshold`, and those
/// with just that key up to item `lastTie`. i32 both.
struct Selection {
  Expr threshold, lastTie;
  Expr contains(Expr key, Expr item) const;
};

/// A key whose unsigned order is the order of scores: NaN lowest, -0 equal to
/// +0.
Expr orderedKey(KernelBuilder &k, Expr score);

/// Selects the `wanted` largest of `count` keys, ties to the smaller item.
/// Three passes of 11, 11 and 10 bits over the row, and one more only where the
/// threshold is a tie that must be cut. Made at the top of a kernel: takes 8
/// KiB of shared memory.
class RadixSelect {
public:
  RadixSelect(KernelBuilder &k, ThreadBlock &block);
  /// Calls count(key) once for every item, in any order.
  using Count = llvm::function_ref<void(Expr key)>;
  using Walk = llvm::function_ref<void(Count count)>;
  /// `walk`, where the items lie better in another order than their own.
  Selection select(Expr count, Expr wanted,
                   llvm::function_ref<Expr(Expr item)> key,
                   Walk walk = nullptr);

private:
  Selection search(Expr count, Expr wanted,
                   llvm::function_ref<Expr(Expr item)> key, Walk walk);
  Expr cutTies(Expr count, Expr threshold, Expr wanted,
               llvm::function_ref<Expr(Expr item)> key);

  KernelBuilder &k;
  ThreadBlock &block;
  Buffer histogram, found;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_RADIXSELECT_H
