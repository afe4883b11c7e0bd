//===- ListedRows.h - rows that a list names, through shared memory -------===//
//
// Vectors of tokens that lie anywhere, which every warp of a block multiplies with what it
// has in registers: a list says whose. The block copies a round of 32 rows (16 where these
// do not fit) while it works on the last one (cp.async, two rounds, one barrier a round).
// With a row go numbers that a thread makes of what it reads at the row's token. Nothing
// is waited for where it is asked for: which tokens a round has is read two rounds
// earlier, and its numbers one round.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_LISTEDROWS_H
#define KVC_CODEGEN_KERNELS_LISTEDROWS_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

class ListedRows {
public:
  using Values = KernelBuilder::Values;

  struct Source {
    llvm::SmallVector<Buffer, 2> sides; // a vector of a row from each
    /// Where a token's vectors are: the indices in front of the innermost.
    std::function<llvm::SmallVector<Expr>(Expr token)> address;
    std::function<Expr(Expr row)> token; // i32, of a row that the list has
    Expr count; // rows behind it are read as the last one
    /// What is read at a token, and the numbers, f32, that are made of it.
    std::function<Values(Expr token)> read;
    std::function<Values(llvm::ArrayRef<Expr>)> make;
  };

  /// Rows a round, with so many sides and numbers: 0 where they do not fit, or where no
  /// tensor cores multiply them.
  static int64_t rowsFor(const Shape &shape, int64_t sides, int64_t numbers);

  /// At the top of a kernel: takes shared memory for rounds of so many rows.
  ListedRows(KernelBuilder &k, int64_t threads, int64_t rows, int64_t sides,
             int64_t numbers);

  /// Walks the source's rows, 16 at a time: all threads of the block. body(first, place,
  /// carried) has row first + i at place + i; rows behind the last one are that one.
  Values
  walk(const Source &source, llvm::ArrayRef<Expr> carried,
       llvm::function_ref<Values(Expr first, Expr place, llvm::ArrayRef<Expr>)>
           body);

  /// Rows of a side, [place][head_dim].
  const Buffer &side(int64_t number) const { return memory[number]; }
  /// So many of the numbers of the row at a place.
  Values numbers(Expr place, int64_t first, int64_t count);

private:
  KernelBuilder &k;
  const int64_t threads, rows;
  llvm::SmallVector<Buffer, 2> memory;
  Buffer tokens, made; // of both rounds, by place

  Expr placeOf(Expr first) { return first / rows % 2 * rows; }
  /// The row of a round that is the thread's, and its token.
  Expr ownRow() { return k.thread() % rows; }
  Expr ownToken(const Source &source, Expr first);
  void storeToken(Expr first, Expr token);
  void storeNumbers(const Source &source, Expr first,
                    llvm::ArrayRef<Expr> values);
  /// Begins to copy the round from row `first` on, whose tokens are known.
  void copy(const Source &source, Expr first);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_LISTEDROWS_H
