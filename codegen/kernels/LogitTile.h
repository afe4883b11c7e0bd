//===- LogitTile.h - a warp's tile of Q.K^T -------------------------------===//
//
// 16 query rows x 32 tokens of one KV head per step, in the warp's part of
// shared memory. The rows of a step are 16 / G' queries of the window times the
// G' query heads of the group, G' = G rounded up to a power of two, so that a
// reduction over the group never crosses a step.
//
// The 32 keys stay in registers or L1 (see WarpProduct.h); queries come from L1 or
// from where a block has staged them (StagedRows.h).
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_LOGITTILE_H
#define KVC_CODEGEN_KERNELS_LOGITTILE_H

#include "codegen/kernels/StagedRows.h"
#include "codegen/kernels/WarpProduct.h"

namespace kvc {

class LogitTile {
public:
  static constexpr int64_t rows = WarpProduct::rows;
  static constexpr int64_t tokens = WarpProduct::columns;
  // Four words more than tokens: a warp stores products of 8 tokens and 4 pairs
  // of rows at a time, which are in 32 banks then.
  static constexpr int64_t pitch = tokens + 4;
  static constexpr int64_t bytesPerWarp = rows * pitch * 4;

  /// Must be made at the top of the kernel: it takes shared memory for `warps`
  /// warps, which may be none where nothing is stored: then a warp may have several
  /// `tiles` of keys. `spare`, `stays` and `tiles` as in WarpProduct; rows are queries.
  /// `steps`: of how many there is room for the rows.
  LogitTile(KernelBuilder &k, int64_t warps, bool spare = false,
            WarpProduct::Stays stays = WarpProduct::Stays::Columns,
            int64_t tiles = 1, int64_t steps = 1);

  /// The rows are those of the last `queries` queries.
  /// With `someMissing` the caller may have given fewer; the first one is read in
  /// their place.
  void setQueries(Expr queries, bool someMissing = false);

  /// Whose queries the rows are, which loadKeys says as well.
  void setHead(Expr sequence, Expr kvHead);
  /// Points the tile at its tokens, from `firstToken`; tokens at or behind `end`
  /// are read as the last one before it, tokens in front of 0 as token 0.
  /// What fetchKeys has `fetched` of them is not loaded again.
  void loadKeys(Expr sequence, Expr kvHead, Expr firstToken, Expr end,
                llvm::ArrayRef<Expr> fetched = {});
  /// Keys for a later loadKeys (WarpProduct::fetchColumns).
  llvm::SmallVector<Expr> fetchKeys(Expr sequence, Expr kvHead, Expr firstToken,
                                    Expr end);

  /// Where the row of a query stands in an array with so many rows, the argument
  /// `rows`, of which the last is the last query's.
  Expr givenRow(llvm::StringRef rows, Expr query) const;
  /// All rows, in order of query and member.
  RowSource rowSource();
  /// Query head and query of one of all rows.
  std::pair<Expr, Expr> queryOf(Expr row);

  /// Products are stored as they are, for who reads them to scale.
  void storeProducts() { storesProducts = true; }

  /// What is subtracted from the logits of a row.
  using Shift = llvm::function_ref<Expr(Expr row)>;
  /// Computes step `step`: logits times scale * log2(e), or products, or, with the
  /// `shift` of one of all rows, two to the power of what is left of logits (with one
  /// rounding): weights. Stored for `at`; synchronises the warp after storing.
  void compute(Expr step, Shift shift = nullptr);
  /// The same of several steps of rows that are elsewhere, 16 each at address(step, row):
  /// the products of one run while those of another are waited for.
  using StepShift = llvm::function_ref<Expr(int64_t step, Expr row)>;
  void computeSteps(
      int64_t steps, const Buffer &memory,
      llvm::function_ref<llvm::SmallVector<Expr>(int64_t, Expr)> address,
      StepShift shift);

  /// Row r of the step holds query step * queriesPerStep + r / G', member
  /// r % G'.
  Expr at(Expr row, Expr column);

  Expr steps() const;
  int64_t queriesPerStep() const { return rows / paddedGroup; }
  static int64_t paddedGroupOf(const Shape &shape);
  const int64_t paddedGroup;

  /// Multiplies queries with the keys.
  WarpProduct &products() { return product; }
  /// scale * log2(e)
  Expr logitScale() const { return scale; }

private:
  llvm::SmallVector<Expr> rowAddress(Expr row);
  /// Stores products from row `first` of the tile on.
  void store(const Buffer &memory, WarpProduct::Address address, Shift shift,
             int64_t first);

  KernelBuilder &k;
  WarpProduct product;
  Expr queries;
  bool queriesMissing = false, storesProducts = false;
  Buffer tile, q, keys;
  Expr scale;
  Expr sequence, kvHead;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_LOGITTILE_H
