//===- StagedRows.h - rows that a block streams through shared memory -----===//
//
// Vectors of head_dim elements that every warp of a block multiplies with what it
// has in registers: queries, rows of the output projection. The block copies a
// round of them while it works on the last one (cp.async, two rounds, one barrier
// a round), so that each row leaves L2 once a block and nobody waits for it. With
// a row goes one number, its log-sum-exp for instance.
//
// 16 bytes of the rows of one matrix fragment lie in different banks: rows begin
// 64 bytes apart modulo 128 (32 where a row has no more).
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_STAGEDROWS_H
#define KVC_CODEGEN_KERNELS_STAGEDROWS_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// Where rows come from. Addresses are the indices in front of the innermost.
struct RowSource {
  using Address = std::function<llvm::SmallVector<Expr>(Expr row)>;
  Buffer memory;
  Address address;
  Expr count; // rows behind it are read as the last one
  /// Rows that are `period` rows apart are `distance` elements apart; 0: none.
  int64_t period;
  Expr distance;
  Buffer numbers = {}; // f32, one a row
  Address number = {};
};

class StagedRows {
public:
  using Values = KernelBuilder::Values;

  /// Rows are staged where tensor cores multiply them.
  static bool suits(const Shape &shape) { return shape.usesTensorCores(); }
  /// Elements that rows are apart.
  static int64_t pitch(const Shape &shape);
  /// Shared memory of both rounds.
  static int64_t bytesFor(const Shape &shape, int64_t rows) {
    return 2 * rows * (pitch(shape) * shape.bytesPerElement() + 4);
  }
  /// The most rows a round, 16 at least and `mostRows` at most, for which that is `bytes`
  /// at most; 0 where not even those fit.
  static constexpr int64_t mostRows = 64;
  static int64_t rowsThatFit(const Shape &shape, int64_t bytes);

  /// At the top of a kernel: takes shared memory for two rounds of `rows`.
  StagedRows(KernelBuilder &k, int64_t threads, int64_t rows);

  /// From here on each of so many teams of the block's threads walks rows of its own, all
  /// with the same bounds: each has its part of the memory, for rounds of fewer rows, and
  /// waits for nobody else.
  void shareOut(int64_t teams, Expr team);

  /// Walks the source's rows from `from` on, a multiple of the round, 16 at a
  /// time: all threads of the block, with the same bounds. body(first, place,
  /// carried) has row first + i at place + i. With several steps at a time their rows
  /// must divide those of the source and of a round.
  Values
  walk(const RowSource &source, Expr from, llvm::ArrayRef<Expr> carried,
       llvm::function_ref<Values(Expr first, Expr place, llvm::ArrayRef<Expr>)>
           body,
       int64_t steps = 1);
  /// A body that is told whether the rows of the whole round exist, and what is asked
  /// about a round: its first row, and the one behind the last.
  using Either = llvm::function_ref<Values(Expr first, Expr place,
                                           llvm::ArrayRef<Expr>, bool whole)>;
  using IsWhole = llvm::function_ref<Expr(Expr first, Expr end)>;
  /// The same, in one of two ways: `whole` is also what isWhole says. Then no step has a
  /// branch.
  Values walkEither(const RowSource &source, Expr from,
                    llvm::ArrayRef<Expr> carried, IsWhole isWhole, Either body);
  /// walkEither over all of so many rows as are known now, which both rounds together
  /// have room for: begins to copy them, and has any number of walks behind that.
  void beginAll(const RowSource &source, int64_t count);
  Values walkAll(int64_t count, llvm::ArrayRef<Expr> carried, IsWhole isWhole,
                 Either body);
  /// The same, `together` steps in straight code where a round is whole: the products of
  /// one run while those of another are waited for.
  Values walkTogether(const RowSource &source, Expr from, int64_t together,
                      llvm::ArrayRef<Expr> carried, Either body);

  /// The same for all of so many rows as are known now: body has the number of
  /// each step's first row.
  Values walkKnown(const RowSource &source, int64_t count,
                   llvm::ArrayRef<Expr> carried,
                   llvm::function_ref<Values(int64_t first, Expr place,
                                             llvm::ArrayRef<Expr>)>
                       body);

  /// Of each round a warp takes one step of 16 rows in `turns`, its `turn`-th one first:
  /// in walk and walkEither, where the rows of a round are a multiple of these steps.
  int64_t turns = 1;
  Expr turn;
  /// Rounds that begin in front of this row a warp leaves to others, in walk and
  /// walkEither; what isWhole says of such a round is false.
  Expr own;

  /// The same by rounds: each has `rows` rows, or what is left. Where `next` begins the
  /// first round of the walk behind this one, with beginKnown, it does so while the last
  /// round is worked on, and this walk's first one was begun like that.
  Values walkKnownRounds(const RowSource &source, int64_t count,
                         llvm::ArrayRef<Expr> carried,
                         llvm::function_ref<Values(int64_t first, Expr place,
                                                   llvm::ArrayRef<Expr>)>
                             body,
                         llvm::function_ref<void()> next = nullptr);
  void beginKnown(const RowSource &source, int64_t count, int64_t first = 0);
  /// Rounds lie in two places in turn: a walk of an even number of them ends in the second.
  bool endsInSecond(int64_t count) const { return count % (2 * rows) == 0; }

  /// Rows of the rounds, [place][head_dim].
  Buffer memory;
  Expr number(Expr place) { return k.load(numbers, {place}); }
  int64_t rows; // of a round

private:
  /// Begins to copy the round from row `first` on, if there are such rows.
  void begin(const RowSource &source, Expr first);
  /// Calls body(done, carried) for the warp's steps of a round of `count` rows, so many
  /// steps at a time.
  Values stepsOf(Expr count, int64_t steps, llvm::ArrayRef<Expr> carried,
                 llvm::function_ref<Values(Expr, llvm::ArrayRef<Expr>)> body);
  /// Walks rounds: body(first, place, carried) has the rows of one, and begins the next.
  Values
  walkRounds(const RowSource &source, Expr from, llvm::ArrayRef<Expr> carried,
             llvm::function_ref<Values(Expr, Expr, llvm::ArrayRef<Expr>)> body);
  /// `count` rows from `first` on, a round or two; `whole`: none of them is behind the
  /// last one.
  void copy(const RowSource &source, Expr first, bool whole, int64_t count);
  void copyRows(const RowSource &source, Expr first, bool whole, int64_t count);
  /// How many rows the round from `first` on has for the warp.
  Expr rowsOf(const RowSource &source, Expr first);
  Expr placeOf(Expr first) {
    Expr place = first / rows % 2 * rows;
    return teams > 1 ? place + team * (2 * rows) : place;
  }
  /// The number of the thread in its team.
  Expr thread() { return teams > 1 ? k.thread() % threads : k.thread(); }
  /// Of those who share a place.
  void barrier() { teams > 1 ? k.teamBarrier(threads) : k.barrier(); }

  KernelBuilder &k;
  const int64_t allThreads, allRows;
  int64_t threads, teams = 1;
  Expr team;
  Buffer numbers;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_STAGEDROWS_H
