//===- CacheRows.h - the rows of a head: whose they are, where they lie ---===//
//
// A dense prompt has every token in every head: row t is token t, and nothing here
// makes any code. In the other caches (Shape::hasRows, docs/caches.md) a head has a
// number of rows, each the row of some token, ascending; what kernels call a token
// of a head is the number of a row there. In kernels over the members of a merged cache
// (CacheKind::Members) it is the number of a member.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_CACHEROWS_H
#define KVC_CODEGEN_KERNELS_CACHEROWS_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// Adds counts and positions of rows to the arguments.
void addRowArgs(std::vector<std::string> &args, const Shape &shape);

/// Adds a side's rows and where they lie to the arguments.
void addSideArgs(std::vector<std::string> &args, const Shape &shape,
                 CacheSide side);

/// A side's rows: [batch][Hkv][rows][d].
Buffer sideBuffer(KernelBuilder &k, CacheSide side);

/// What the rows of a merged cache represent as a policy begins: the members of one KV
/// head, ascending by position.
class MemberTable {
public:
  static void addArgs(std::vector<std::string> &args);

  MemberTable(KernelBuilder &k, Expr sequence, Expr head)
      : k(k), sequence(sequence), head(head) {}

  /// Whatever the caller says, at most its capacity and max_tokens.
  Expr count() const;
  /// True where the caller says as many.
  Expr isRight() const;
  /// Of a member that exists: the number of its row and its true position, index, and
  /// the norm of its key.
  Expr row(Expr member) const;
  Expr position(Expr member) const;
  Expr norm(Expr member) const;

private:
  KernelBuilder &k;
  Expr sequence, head;

  Expr given() const;
  Expr most() const;
  Expr load(llvm::StringRef name, Expr member) const;
};

/// The rows of one KV head of one sequence, whose T is `length`.
class HeadRows {
public:
  HeadRows(KernelBuilder &k, Expr sequence, Expr head, Expr length)
      : k(k), sequence(sequence), head(head), length(length) {}

  /// n; whatever the caller says, at most max_tokens, and inside the slots.
  Expr count() const;
  /// The slot of row 0, one of the slots whatever the caller says; 0 of a prompt.
  Expr firstSlot() const;
  /// True where the caller's T, n and first slot are inside.
  Expr isRight() const;
  /// Looks at the rows `first`, `first` + `step`, ..., where `first` is 0 at the head
  /// itself as well, and sets KVC_DATA_CACHE in `status` where something is not right:
  /// a position that is not behind that of the row in front or not below T, a page that
  /// is not of the pool.
  /// Of `inFlight` rows nothing waits for anything: for few threads.
  void tell(Expr first, Expr step, int64_t inFlight = 1) const;
  /// The true position of a row that exists, index.
  Expr position(Expr row) const;
  /// The same, of a head that has all its rows below T; else one of [0, T) where the
  /// caller gives positions, whatever they are, and below max_tokens where not.
  Expr positionInside(Expr row) const;
  /// The same as position(row), read where `row` becomes known, for all who ask: it exists there already.
  Expr positionOnce(Expr row) const;
  /// What the caller gives of a row in the memory `name`, as NAME_kind says: 0
  /// `otherwise`; else load(place), 1 by the row's number, 2 where its key lies, with
  /// NAME_batch, NAME_head, NAME_row and, paged, NAME_page.
  Expr given(const std::string &name, Expr row, Expr otherwise,
             llvm::function_ref<Expr(Expr place)> load) const;
  /// Makes code twice: `ofPositions` for caches whose rows are positions, as those that
  /// were never evicted from are, `ofRows` for the others; once where a shape has one kind.
  using Values = KernelBuilder::Values;
  static Values eitherKind(KernelBuilder &k,
                           llvm::function_ref<Values()> ofPositions,
                           llvm::function_ref<Values()> ofRows);
  /// The first of the rows `first` to `end`, all of which exist, with `position` or a
  /// later one; `end` where there is none. Makes one load for each bit of the number
  /// of rows that it looks through, none where rows are positions.
  Expr firstAt(Expr position, Expr first, Expr end) const;

private:
  KernelBuilder &k;
  Expr sequence, head, length;

  Expr searchedFor(Expr position, Expr first, Expr end) const;
  using PlaceOf = llvm::function_ref<Expr(Expr row)>;
  /// True where a row that exists has a position below T, behind that of the row in front; place(row)
  /// is where a row's lies.
  Expr ascends(Expr row, PlaceOf place) const;
  Expr placeByRow(const std::string &name, Expr row) const;
  Expr placeBySlot(const std::string &name, Expr row) const;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_CACHEROWS_H
