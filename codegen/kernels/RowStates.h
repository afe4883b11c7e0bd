//===- RowStates.h - numbers that rows carry from run to run --------------===//
//
// What an earlier run has left with a row (kvc.row_state) lies where the caller says,
// by row or by slot; what this run leaves goes beside the rows of k_out. Kernels that
// compute it do so for every row (KernelOp::getEveryRow), and only where the caller
// has a place for it, or something is ranked by it.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_ROWSTATES_H
#define KVC_CODEGEN_KERNELS_ROWSTATES_H

#include "codegen/kernels/Kernels.h"

namespace kvc {

/// Adds what earlier runs have left to the arguments.
void addRowStateArgs(std::vector<std::string> &args, const Shape &shape);

/// What a row carries by the name of `op`, f32.
Expr readRowState(KernelBuilder &k, const SequenceScalars &s, RowStateOp op,
                  Expr head, Expr row);

/// True where a kernel has something to compute for a sequence: where it is ranked,
/// or, for every row, where rows carry.
Expr hasWork(KernelBuilder &k, const SequenceScalars &s, KernelOp kernel);

/// Where rows carry what the kernel makes, all rows are its past.
void takeEveryRow(KernelBuilder &k, SequenceScalars &s, KernelOp kernel);

/// What a kernel behind the selection writes of each row of k_out.
class CarriedRows {
public:
  static void addArgs(std::vector<std::string> &args);

  CarriedRows(KernelBuilder &k, Expr sequence) : k(k), sequence(sequence) {}

  /// True where the caller has a place for it.
  Expr wanted() const;
  /// Writes the number of one state, in the order of the plan, of row `place` of
  /// the sequence.
  void store(int64_t state, Expr place, Expr number);

private:
  KernelBuilder &k;
  Expr sequence;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_ROWSTATES_H
