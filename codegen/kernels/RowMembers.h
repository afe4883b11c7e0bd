//===- RowMembers.h - what kept rows represent -----------------------------===//
//
// The caller's table of members: by head, the row that each represented token is in and
// its position. Behind the lists of kept tokens (RowLists.h), of which a head has one
// block here. The whole block calls each of these; all have barriers inside.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_ROWMEMBERS_H
#define KVC_CODEGEN_KERNELS_ROWMEMBERS_H

#include "codegen/kernels/RowLists.h"

namespace kvc {

class RowMembers {
public:
  /// Adds the arguments that hold the table, and of a merged cache the one it has.
  static void addArgs(KernelOp kernel, const Shape &shape,
                      std::vector<std::string> &args);

  RowMembers(RowBlock &r, RowLists &lists)
      : r(r), lists(lists), k(r.k), s(r.s) {}

  /// The table of what the kept rows represent; behind RowLists::listKept.
  void list(ListMembersOp op);
  /// The same of a head that keeps all its rows; behind RowLists::listAll.
  void listAll(ListMembersOp op);

private:
  RowBlock &r;
  RowLists &lists;
  KernelBuilder &k;
  const SequenceScalars &s;

  void write(ListMembersOp op, Expr entry, Expr token, Expr row, Expr to);
  void writeCount(Expr count);
  /// Sets KVC_DATA_CACHE where the table that a merged cache came with is longer than
  /// its capacity or max_tokens, a member has no row, or positions do not ascend below T.
  void tellMembers(const MemberTable &table, Expr count);
  /// Of a merged cache: notes the row that each row goes to, or -1, then lists what is
  /// left of the table that it came with.
  void listLeft(ListMembersOp op, llvm::function_ref<Expr(Expr row)> newRow);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_ROWMEMBERS_H
