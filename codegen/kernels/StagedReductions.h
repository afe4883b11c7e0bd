//===- StagedReductions.h - reductions over channels, for tokens of a block ===//
//
// A loop in which a thread has a token cannot reduce its vectors but by itself. So
// whole warps make these numbers in front of the loop (LaneRows.h), for as many
// tokens at a time as 8 KiB of shared memory hold, 32 at least; the loop's reader
// takes them from there.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_STAGEDREDUCTIONS_H
#define KVC_CODEGEN_KERNELS_STAGEDREDUCTIONS_H

#include "codegen/kernels/LaneRows.h"
#include "codegen/kernels/RowBlock.h"

namespace kvc {

class StagedReductions {
public:
  /// At the top of a kernel: takes shared memory for up to `most` reductions and
  /// members of them; none for 0.
  StagedReductions(KernelBuilder &k, LaneWalk &walk, int64_t most);

  /// Calls body(tokens) for all tokens of the row, with what is needed at hand. All
  /// threads of the block, with two barriers around each call where anything is.
  void run(const RowBlock &row, const LaneNeeds &needs,
           llvm::function_ref<void(RowBlock &)> body);
  /// For the row's reader: what is at hand.
  std::optional<Expr> find(mlir::Value value, const Point &point) const;

private:
  void make(const LaneNeeds &needs, const RowBlock &tokens);

  KernelBuilder &k;
  LaneWalk &walk;
  Buffer memory; // [reduction and member][token]
  int64_t together = 0;
  Expr first; // the token whose numbers come first
  llvm::DenseMap<std::pair<mlir::Operation *, int>, int64_t> places;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_STAGEDREDUCTIONS_H
