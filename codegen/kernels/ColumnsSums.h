//===- ColumnsSums.h - what a lane makes of products, and where it goes ---===//
//
// A lane has products of some rows and tokens (WarpProduct.h), and adds up what a policy makes
// of them by token and member of the group (ColumnsProducts.cpp, ColumnsMembers.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_COLUMNSSUMS_H
#define KVC_CODEGEN_KERNELS_COLUMNSSUMS_H

#include "codegen/kernels/LogitTile.h"

namespace kvc {

/// What is made of one product, and added to sums: rows are those from step `step` on,
/// and the lane has `slots` columns. Where log-sum-exps are read, `number` is the row's,
/// and shift() that times `minusScale`, made once for each row of the lane.
struct AddingProducts {
  Expr step;
  int slots;
  bool whole;
  std::optional<int64_t> known;
  llvm::function_ref<Expr(const WarpProduct::Product &)> number;
  Expr minusScale;
  llvm::SmallDenseMap<int, Expr> shifts{};
  Expr shift(const WarpProduct::Product &p) {
    Expr &shift = shifts[p.rowSlot];
    if (!shift.valid())
      shift = number(p) * minusScale;
    return shift;
  }
};

/// A sum, and where memberSums has it.
struct PlacedSum {
  ReduceKind kind;
  Expr sum;
  llvm::SmallVector<Expr, 3> at;
};

/// Accumulators of a token, and which one a row of the lane is added to.
inline int classesOf(int64_t group) {
  return group == 1 ? 1 : group <= 8 ? 2 : 4;
}
inline int classOf(int64_t group, int rowSlot) {
  return rowSlot % classesOf(group);
}
/// Lanes of a quad that are so far apart have products of the same members of a group.
inline int64_t laneStep(int64_t group) {
  return std::clamp<int64_t>(group / 2, 1, 4);
}

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_COLUMNSSUMS_H
