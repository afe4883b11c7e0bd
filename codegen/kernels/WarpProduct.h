//===- WarpProduct.h - a warp multiplies 16 rows with 32 columns ----------===//
//
// Rows and columns are vectors of head_dim elements in global memory, wherever
// the caller says. Products stay in registers; the caller visits them.
//
// f16 and bf16 with head_dim a multiple of 16 use tensor-core instructions, all
// else plain multiply-add in fp32. The 32 columns stay in registers (tensor
// cores) or in L1.
//
// Without tensor cores a lane has a column of its own. A GPU's has one product of
// each row in a register; the host, whose registers hold a few rows of 32 lanes, copies
// the columns once to where they follow each other by lane, and walks them for two rows
// at a time.
//
// Of an instruction's operands the left one, A, interleaves two rows of memory
// in its registers, which takes a move for each; the right one, B, is as it was
// loaded. So what stays is A and what streams is B: the columns and the rows,
// unless a kernel walks columns past rows that stay.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_WARPPRODUCT_H
#define KVC_CODEGEN_KERNELS_WARPPRODUCT_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

class WarpProduct {
public:
  static constexpr int64_t rows = 16;
  static constexpr int64_t columns = 32;

  /// Long columns take half of a lane's registers: what else a kernel holds for
  /// speed must go then, or registers spill.
  static bool hasLongHeads(const KernelBuilder &k) {
    return k.shape.headDim > 128;
  }

  /// Where vector `i` begins: the indices in front of the innermost.
  using Address = llvm::function_ref<llvm::SmallVector<Expr>(Expr i)>;

  /// Which side stays in registers while the other streams.
  enum class Stays { Columns, Rows };

  /// Where a kernel needs registers for more, `spare` reads long columns again
  /// for every product. With several `tiles` of columns, which tensor cores alone have,
  /// a row that is read once is multiplied with all of them.
  explicit WarpProduct(KernelBuilder &k, bool spare = false,
                       Stays stays = Stays::Columns, int64_t tiles = 1)
      : tiles(tiles), k(k), columnsLeft(stays == Stays::Columns),
        streams(spare && hasLongHeads(k)) {}
  const int64_t tiles;

  /// Takes the columns, 32 a tile; `address` must stay valid until the last multiply.
  void loadColumns(const Buffer &memory,
                   std::function<llvm::SmallVector<Expr>(Expr)> address,
                   llvm::ArrayRef<Expr> fetched = {});

  /// The lane's part of columns that come later, on its way while it multiplies with
  /// others: loadColumns takes what is `fetched` of the same columns in place of loads.
  /// Tensor cores alone.
  llvm::SmallVector<Expr> fetchColumns(const Buffer &memory, Address address);

  /// Columns that stay are two rows of memory in turn. Where products are written out in
  /// the loop that loads the columns, ptxas leaves these as they were loaded, and puts two
  /// rows beside each other by moves for each product again: four moves a product. A
  /// number that it does not know, `zero`, is then set against each register once, so that
  /// what is loaded is not what is multiplied.
  void mixOnce(Expr zero) { unknownZero = zero; }

  /// True where a lane holds `heldWidth` elements in a row of each of its columns,
  /// from every multiple of four times that on plus its own part: lane % 4.
  bool holdsColumns() const {
    return k.shape.usesTensorCores() && columnsLeft && !streams &&
           k.shape.headDim % (4 * heldWidth) == 0;
  }
  static constexpr int64_t heldWidth = 8;
  /// Element `e` of those from `base` on, f32.
  Expr heldElement(int slot, int64_t base, int64_t e);

  /// One that a lane holds. `columnSlot` numbers the lane's columns, `rowSlot`
  /// its rows.
  struct Product {
    Expr value, row, column;
    int columnSlot, rowSlot;
  };
  using Visit = llvm::function_ref<void(const Product &product)>;
  /// Multiplies 16 rows with the columns and visits every product of the lane.
  void multiply(const Buffer &memory, Address address, Visit visit);

  /// Columns that one lane holds parts of.
  int slots() const {
    return !k.shape.usesTensorCores() ? 1 : int(tiles) * slotsOfTile();
  }
  int slotsOfTile() const {
    return !k.shape.usesTensorCores() ? 1 : columnsLeft ? 4 : 8;
  }

  /// The column of a slot.
  Expr columnOf(int slot);
  /// Where the columns stay: how far apart those of two slots that follow each other are.
  static constexpr int64_t apart = 8;

  /// Combines what lanes hold of the same columns; every lane gets the result.
  llvm::SmallVector<Expr>
  acrossLanes(llvm::SmallVector<Expr> values,
              llvm::function_ref<llvm::SmallVector<Expr>(llvm::ArrayRef<Expr>,
                                                         llvm::ArrayRef<Expr>)>
                  combine);

  /// True for one of the lanes that hold the same columns.
  Expr ownsColumns();

  /// Adds up each column's parts, of the slots of one tile, and gives lane c the sum of
  /// its column c. `memory` is shared, [warps][columns]; the warp is synchronised.
  Expr columnSums(llvm::ArrayRef<Expr> slots, const Buffer &memory);

private:
  KernelBuilder &k;
  Buffer columnMemory;
  std::function<llvm::SmallVector<Expr>(Expr)> columnAddress;
  /// Tensor cores: a fragment for each 16 columns on the left, 8 on the right.
  llvm::SmallVector<llvm::SmallVector<Expr>> fragments;
  bool columnsLeft, streams;
  Expr unknownZero; // mixOnce
  llvm::SmallVector<Expr> mixed(const llvm::SmallVector<Expr> &loaded);
  /// Else, for the host: the lane's column, and its product of each row, f32.
  Buffer ownColumn, ownDots;

  void copyColumn();
  void prefetchRow(const Buffer &memory, llvm::ArrayRef<Expr> at);
  llvm::SmallVector<Expr> dotsOnGPU(const Buffer &memory, Address address);
  llvm::SmallVector<Expr> dotsOnHost(const Buffer &memory, Address address);

  int64_t columnBlocks() const {
    return tiles * columns / (columnsLeft ? 16 : 8);
  }
  llvm::SmallVector<Expr> columnFragment(const Buffer &memory, Address address,
                                         int64_t block);
  llvm::SmallVector<Expr> columnFragment(int64_t block) {
    return columnFragment(columnMemory, columnAddress, block);
  }
  /// The lane's part of 16 or 8 vectors from `first` on.
  llvm::SmallVector<Expr> leftFragment(const Buffer &memory, Address address,
                                       int64_t first);
  llvm::SmallVector<Expr> rightFragment(const Buffer &memory, Address address,
                                        int64_t first);
  void multiplyFragments(const Buffer &memory, Address address, Visit visit);
  void multiplyLeftColumns(const Buffer &memory, Address address, Visit visit);
  llvm::SmallVector<Expr> mma(llvm::ArrayRef<Expr> left,
                              llvm::ArrayRef<Expr> right);

  Expr loadPart(const Buffer &memory, llvm::SmallVector<Expr> at, Expr dim,
                int64_t width);
  /// Elements of one vector access along head_dim, and where they begin.
  llvm::SmallVector<std::pair<int64_t, int64_t>> accesses() const;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_WARPPRODUCT_H
