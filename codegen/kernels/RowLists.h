//===- RowLists.h - lists of tokens, and what rows represent --------------===//
//
// Ascending lists by two passes over a mask and a prefix sum. The whole block
// calls each of these; all have barriers inside.
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

  explicit RowLists(RowBlock &r) : r(r), k(r.k), s(r.s) {}

  /// The kept tokens of the block's head, and their number.
  void listKept(ListKeptOp list);
  /// The tokens that a mask marks, for another kernel.
  void listMarked(ListOp op);
  /// The table of what kept rows represent; behind listKept.
  void listMembers(ListMembersOp op);
  /// All of these for a sequence that keeps every token.
  void listAll();

private:
  RowBlock &r;
  KernelBuilder &k;
  const SequenceScalars &s;

  template <typename Op> bool has() {
    return !r.kernel.getBody().getOps<Op>().empty();
  }
  Expr listWhere(Expr count, llvm::function_ref<Expr(Expr)> isMember,
                 llvm::function_ref<void(Expr, Expr)> write);
  Buffer rankBuffer();
  void writeIndex(Expr row, Expr token);
  void writeCount(Expr count);
  void writeMember(ListMembersOp op, Expr entry, Expr token, Expr row, Expr to);
  void writeMemberCount(Expr count);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_ROWLISTS_H
