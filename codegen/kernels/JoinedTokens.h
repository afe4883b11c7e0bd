//===- JoinedTokens.h - the tokens that a kept row stands for -------------===//
//
// A warp looks through what may join its row: the entries of its head's table of
// members, or, in a merged cache, whose rows are merged as they are, through the head's
// rows. Most are other rows' entries: it asks of 256 at once whether one is its own, and
// which, of 32 at once, only where that is so. All lanes come.
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

  /// Entries that a lane asks for at once.
  static constexpr int64_t together = 8;

  bool ofMerged() const { return k.shape.isMerged(); }
  /// True where none of the entries of the group that begins at `base`, all of which
  /// exist, joins the row.
  Expr hasNone(Expr row, Expr base);
  /// The row that represents what an entry stands for, i32, and which token that is.
  Expr ownerOf(Expr entry);
  Expr tokenOf(Expr entry);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_JOINEDTOKENS_H
