//===- LogitTile.h - a warp's tile of Q.K^T -------------------------------===//
//
// 16 query rows x 32 tokens of one KV head per step, in the warp's part of
// shared memory. The rows of a step are 16 / G' queries of the window times the
// G' query heads of the group, G' = G rounded up to a power of two, so that a
// reduction over the group never crosses a step.
//
// The 32 keys stay in registers or L1 (see WarpProduct.h); queries are read
// again by every warp, from L1.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_LOGITTILE_H
#define KVC_CODEGEN_KERNELS_LOGITTILE_H

#include "codegen/kernels/WarpProduct.h"

namespace kvc {

class LogitTile {
public:
  static constexpr int64_t rows = WarpProduct::rows;
  static constexpr int64_t tokens = WarpProduct::columns;
  // One column more than tokens: neighbouring rows start in different banks.
  static constexpr int64_t pitch = tokens + 1;
  static constexpr int64_t bytesPerWarp = rows * pitch * 4;

  /// Must be made at the top of the kernel: it takes shared memory for `warps`
  /// warps. `spare` as in WarpProduct.
  LogitTile(KernelBuilder &k, int64_t warps, bool spare = false);

  /// The rows are those of the last `queries` queries.
  void setQueries(Expr queries);

  /// Points the tile at 32 tokens from `firstToken`; tokens at or behind `end`
  /// are read as the last one before it, tokens in front of 0 as token 0.
  void loadKeys(Expr sequence, Expr kvHead, Expr firstToken, Expr end);

  /// Computes step `step`: logits times scale * log2(e), stored for `at`.
  /// Synchronises the warp after storing.
  void compute(Expr step);

  /// Row r of the step holds query step * queriesPerStep + r / G', member
  /// r % G'.
  Expr at(Expr row, Expr column);

  Expr steps() const;
  int64_t queriesPerStep() const { return rows / paddedGroup; }
  int64_t paddedGroup;

private:
  /// Head and q row of tile row `row`, clamped to those that exist.
  std::pair<Expr, Expr> queryOf(Expr step, Expr row);

  KernelBuilder &k;
  WarpProduct product;
  Expr queries;
  Buffer tile, q, keys;
  Expr scale;
  Expr sequence, kvHead;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_LOGITTILE_H
