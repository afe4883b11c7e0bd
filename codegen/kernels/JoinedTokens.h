//===- JoinedTokens.h - the tokens that a kept row stands for -------------===//
//
// A warp looks through what may join its row: the entries of its head's table of
// members, 32 at once, or, in a merged cache, whose rows are merged as they are, through
// the head's rows. All lanes come.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_JOINEDTOKENS_H
#define KVC_CODEGEN_KERNELS_JOINEDTOKENS_H

#include "codegen/kernels/Kernels.h"

#include <functional>

namespace kvc {

class JoinedTokens {
public:
  using Values = KernelBuilder::Values;

  /// Adds the arguments that hold the table; a merged cache has none to look through.
  static void addArgs(const Shape &shape, std::vector<std::string> &args);

  /// Of a head with so many rows. `tokenAt(entry)`, i32: the token that an entry of the
  /// table is; of a merged cache, the row that an entry's row joins.
  JoinedTokens(KernelBuilder &k, const SequenceScalars &s, Expr head,
               std::function<Expr(Expr entry)> tokenAt);

  /// Folds over what joins `row`, ascending.
  Values over(Expr row, Values start,
              llvm::function_ref<Values(Expr entry, Expr token,
                                        llvm::ArrayRef<Expr> carried)>
                  body);

  /// The norm of an entry's key, of which each lane has a part; it goes to the table.
  Expr noteNorm(Expr entry, llvm::ArrayRef<Expr> key);

private:
  KernelBuilder &k;
  Expr sequence, head, count;
  std::function<Expr(Expr)> tokenAt;
  Buffer owners, norms;

  bool ofMerged() const { return k.shape.isMerged(); }
  /// The row that represents what an entry stands for, i32, and which token that is.
  Expr ownerOf(Expr entry);
  Expr tokenOf(Expr entry);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_JOINEDTOKENS_H
