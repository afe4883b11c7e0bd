//===- RowLists.h - lists of tokens, and what rows represent --------------===//
//
// Ascending lists by two passes over a mask and a prefix sum. Where a head has
// several blocks, each counts what is marked in front of its span (or, where it is
// known how many there are, behind that, if that is less), lists what is in it, and the
// last one says how many there are. The whole block calls each of
// these; all have barriers inside.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_ROWLISTS_H
#define KVC_CODEGEN_KERNELS_ROWLISTS_H

#include "codegen/kernels/RowBlock.h"

namespace kvc {

class RowLists {
public:
  /// Adds the arguments that the kernel's lists write.
  static void addArgs(KernelOp kernel, const Shape &shape,
                      std::vector<std::string> &args);

  /// How many tokens of the past a mask marks, i32, where that is known beforehand.
  llvm::DenseMap<mlir::Value, Expr> totals;

  /// `isLast`: of the head's blocks.
  RowLists(RowBlock &r, Expr isLast) : r(r), k(r.k), s(r.s), isLast(isLast) {}

  /// The kept tokens of the block's head, and their number.
  void listKept(ListKeptOp list);
  /// The tokens that a mask marks, for another kernel.
  void listMarked(ListOp op);
  /// The table of what kept rows represent; behind listKept.
  void listMembers(ListMembersOp op);
  /// All of these for a sequence that keeps every token, of which the block has
  /// those from `begin` to `end`.
  void listAll(Expr begin, Expr end);

private:
  RowBlock &r;
  KernelBuilder &k;
  const SequenceScalars &s;
  Expr isLast;

  template <typename Op> bool has() {
    return !r.kernel.getBody().getOps<Op>().empty();
  }
  /// True where the kernel lists members of a cache that has some already.
  static bool hasTable(KernelOp kernel, const Shape &shape);
  Expr isSelected(mlir::Value mask, Expr token);
  Expr countInFront(Expr from, Expr to,
                    llvm::function_ref<Expr(Expr)> isMember);
  Expr listWhere(Expr end, Expr all, llvm::function_ref<Expr(Expr)> isMember,
                 llvm::function_ref<void(Expr, Expr)> write);
  Buffer rankBuffer();
  void writeIndex(Expr row, Expr token);
  void writeCount(Expr count);
  void writeMember(ListMembersOp op, Expr entry, Expr token, Expr row, Expr to);
  void writeMemberCount(Expr count);
  /// What a head represents that keeps all its rows.
  void listAllMembers(ListMembersOp op);
  /// Looks at the table that a merged cache came with.
  void tellMembers(const MemberTable &table, Expr count);
  /// Of a merged cache: notes the row that each row goes to, or -1, then lists what is
  /// left of the table that it came with.
  void listLeft(ListMembersOp op, llvm::function_ref<Expr(Expr row)> newRow);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_ROWLISTS_H
