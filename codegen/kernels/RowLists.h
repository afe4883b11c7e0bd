//===- RowLists.h - lists of tokens ----------------------------------------===//
//
// Ascending lists by two passes over a mask and a prefix sum. Where a head has
// several blocks, each counts what is marked in front of its span, if that is not known,
// lists what is in it, and the last one says how many there are. The whole block calls
// each of these; all have barriers inside.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_ROWLISTS_H
#define KVC_CODEGEN_KERNELS_ROWLISTS_H

#include "codegen/kernels/RowBlock.h"

namespace kvc {

class RowLists {
public:
  /// Adds the arguments that the kernel's lists write.
  static void addArgs(KernelOp kernel, std::vector<std::string> &args);

  /// How many tokens in front of the block's a mask marks, i32, where that is known.
  llvm::DenseMap<mlir::Value, Expr> inFront;

  /// `isLast`: of the head's blocks.
  RowLists(RowBlock &r, Expr isLast) : r(r), k(r.k), s(r.s), isLast(isLast) {}

  /// The kept tokens of the block's head, and their number.
  void listKept(ListKeptOp list);
  /// The tokens that a mask marks, for another kernel.
  void listMarked(ListOp op);
  /// The kept tokens of a sequence that keeps every token, of which the block has
  /// those from `begin` to `end`.
  void listAll(Expr begin, Expr end);

  /// A token of the past is kept where the mask marks it, whatever that is made of;
  /// but nothing is where the window takes the whole budget.
  Expr isSelected(mlir::Value mask, Expr token);
  /// Calls write(row, token, made) for each token of the block up to `end` that is a
  /// member, rows ascending: make(token) gives whether it is, and what else `write` is
  /// told of it. Returns how many there are up to there. `front`: how many are in front
  /// of the block's, i32, where that is known.
  using Values = KernelBuilder::Values;
  using Write =
      llvm::function_ref<void(Expr row, Expr token, llvm::ArrayRef<Expr> made)>;
  Expr listWhere(Expr end, Expr front, llvm::function_ref<Values(Expr)> make,
                 Write write);
  /// Where the row of each kept token is noted, for its members; -1 of all others.
  Buffer rowsOfTokens(ListMembersOp op);
  /// A kept token, and how many the head keeps: by the whole block.
  void writeIndex(Expr row, Expr token);
  void writeCount(Expr count);

private:
  RowBlock &r;
  KernelBuilder &k;
  const SequenceScalars &s;
  Expr isLast;

  Expr countInFront(llvm::function_ref<Values(Expr)> make);
  /// Notes of all tokens that they have no row.
  void clearRows();
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_ROWLISTS_H
