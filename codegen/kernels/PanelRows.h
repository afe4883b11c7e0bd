//===- PanelRows.h - rows in shared memory that warpgroups multiply -------===//
//
// As StagedRows.h, for products of 64 columns of a warpgroup (wgmma) in the place of 32
// of a warp: two rounds of 64 rows, which lie where a descriptor says so. A round is
// panels of 64 elements of each row: a panel's rows of 128 bytes follow each other, their
// pieces of 16 bytes exchanged so that eight rows fill all banks (PTX ISA, "Asynchronous
// Warpgroup Level Matrix Shared Memory Layout", 128-byte swizzle).
//
// One warpgroup copies a round for all. What it has copied is there for others when it has
// waited, has published, and all have met.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_PANELROWS_H
#define KVC_CODEGEN_KERNELS_PANELROWS_H

#include "codegen/kernels/StagedRows.h"
#include "codegen/kernels/WarpProduct.h"

namespace kvc {

class PanelRows {
public:
  using Values = KernelBuilder::Values;
  static constexpr int64_t rows = 64, groupThreads = 4 * warpSize;

  /// Rows are whole panels, and what a lane holds of 128 columns leaves it registers for
  /// their products.
  static bool suits(const Shape &shape) {
    return StagedRows::suits(shape) && shape.headDim % panel == 0 &&
           shape.headDim <= 128;
  }
  static int64_t bytesFor(const Shape &shape, int64_t rounds = 2) {
    return bytesFor(shape, rounds, rounds);
  }
  static int64_t bytesFor(const Shape &shape, int64_t rounds,
                          int64_t numbered) {
    return rows *
           (rounds * shape.headDim * shape.bytesPerElement() + numbered * 4);
  }

  /// At the top of a kernel: takes shared memory for so many rounds, and for the numbers of
  /// `numbered`, which stay while the rows of later rounds take the place of theirs.
  PanelRows(KernelBuilder &k, int64_t rounds, int64_t numbered);

  /// What is in the place of rows behind the last one: that one, or zeros, whose products
  /// are.
  enum class Behind { Last, Zeros };
  /// The warpgroup begins to copy the round from row `first` on, if there are such rows.
  void begin(const RowSource &source, Expr first, Behind behind = Behind::Last);
  /// The same of whole rounds whose elements are in the order of wideFragment, by the
  /// thread's own warpgroup: all are on their way before the first one goes to its places.
  /// Those of two rounds take 64 registers.
  void beginMixed(const RowSource &source, llvm::ArrayRef<Expr> rounds);
  /// Of one round, in two parts: what the thread loads is on its way, and goes to its places.
  Values loadMixed(const RowSource &source, Expr first);
  void storeMixed(llvm::ArrayRef<Expr> loaded, const RowSource &source,
                  Expr first);
  /// It waits for what it has begun.
  void finish();

  /// 16 vectors of head_dim elements from address(0) on as the left operand of products.
  static llvm::SmallVector<Expr> fragment(KernelBuilder &k,
                                          const Buffer &memory,
                                          WarpProduct::Address address);
  /// The same by 16 bytes a lane: of each 32 elements a lane has eight beside each other, so
  /// that products have them in another order, as the rows must have them (beginMixed).
  static llvm::SmallVector<Expr> wideFragment(KernelBuilder &k,
                                              const Buffer &memory,
                                              WarpProduct::Address address);
  /// Begins to multiply 64 columns, of which each warp of a warpgroup has 16 in `left`,
  /// with the round from row `first` on. What it returns
  /// nobody touches in front of waitFor.
  Values multiply(llvm::ArrayRef<Expr> left, Expr first);
  /// Waits for all products of the warpgroup.
  Values waitFor(llvm::ArrayRef<Expr> products);
  /// Of several multiplies, whose products are behind each other: how many, and those of
  /// one.
  static size_t parts(llvm::ArrayRef<Expr> products) {
    return products.size() / (rows / 2);
  }
  static llvm::ArrayRef<Expr> part(llvm::ArrayRef<Expr> products,
                                   int64_t number) {
    return products.slice(number * (rows / 2), rows / 2);
  }
  /// Visits what the lane has of 64 x 64 products: rows of the round, columns of the
  /// warp's 16. Columns' slots begin with `slot`.
  static void visit(KernelBuilder &k, llvm::ArrayRef<Expr> products, int slot,
                    WarpProduct::Visit visit);
  /// The row of a slot, in the round, and how far it is behind that of slot 0.
  static Expr rowOf(KernelBuilder &k, int slot) {
    return k.lane() % 4 * 2 + apart(slot);
  }
  static int64_t apart(int slot) { return slot / 2 * 8 + slot % 2; }
  /// The numbers that go with the rows of the round that the lane has products of, by
  /// rowSlot.
  Values numbersOf(Expr first);
  /// Multiplies all numbers, by so many threads, between two barriers.
  void scaleNumbers(int64_t threads, Expr by);

private:
  static constexpr int64_t panel = 64;
  Expr stageOf(Expr first) { return first / rows % rounds; }
  Expr placeOfNumbers(Expr first) { return first / rows % numbered * rows; }
  /// Of 16 bytes of a row, `part` the number of these.
  Expr placeOf(Expr first, Expr row, Expr part);
  void copyWhole(const RowSource &source, Expr first);
  void copySome(const RowSource &source, Expr first, Behind behind);
  void copyNumbers(const RowSource &source, Expr first);
  void storeRows(llvm::ArrayRef<Expr> loaded, Expr first);
  /// The thread's number in its warpgroup.
  Expr thread() { return k.thread() % groupThreads; }

  KernelBuilder &k;
  int64_t rounds, numbered;
  Buffer memory, numbers;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_PANELROWS_H
