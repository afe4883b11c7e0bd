//===- TokenDeviations.h - deviations over tokens, from parts -------------===//
//
// A columns kernel has the parts (TokenParts.h), each of 64 tokens: so many has the
// smallest block that walks all heads. A warp combines those of a head. Where it is
// asked which heads have the lowest deviation, or the highest, each block has one warp
// for each head, so that no kernel in front need do it. Reads 8 bytes for 64 tokens.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_TOKENDEVIATIONS_H
#define KVC_CODEGEN_KERNELS_TOKENDEVIATIONS_H

#include "codegen/kernels/RowBlock.h"

namespace kvc {

class TokenDeviations {
public:
  TokenDeviations(RowBlock &row, CombineDeviationsOp op,
                  llvm::ArrayRef<std::string> inputs);

  /// A head's, by a warp; `member` of its group.
  Expr ofHead(Expr kvHead, Expr member) const;
  /// Those of the block's own head, by member.
  llvm::SmallVector<Expr> ofOwnHead() const;

private:
  RowBlock &r;
  KernelBuilder &k;
  int64_t members;
  llvm::SmallVector<Buffer> memory;
  /// The columns kernel walked all heads, over positions.
  bool overPositions;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_TOKENDEVIATIONS_H
