//===- IntoRows.h - kept rows in a view that the call brings --------------===//
//
// Where the compaction puts what a head keeps if the caller says (Shape::into): row r in
// the r-th of the head's slots, or, packed to the tail, such that the last row lies where
// the head's last row lay. The view may be the cache that is read.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_INTOROWS_H
#define KVC_CODEGEN_KERNELS_INTOROWS_H

#include "codegen/kernels/ViewSlots.h"

namespace kvc {

/// The kept rows of one KV head of one sequence.
class IntoRows {
public:
  /// Where a row is written: its number in the head, and its slot.
  struct Place {
    Expr row, slot;
  };

  /// Of a kernel that writes rows of K and V, positions, and what rows carry.
  static void addArgs(std::vector<std::string> &args, const Shape &shape,
                      bool carries);

  /// `rowsOf`: how many rows a head has.
  IntoRows(KernelBuilder &k, Expr sequence, Expr head,
           std::function<Expr(Expr head)> rowsOf);

  /// How many there are.
  Expr count() const { return kept; }
  /// True for a kept row that has one of the head's slots.
  Expr hasSlot(Expr row) const;
  /// True where that slot lies in pages of the pool as well.
  Expr fits(Expr row) const;
  /// By one thread of a head: writes its first row's slot to `offsets`, what the caller
  /// can free to `freed_pages`, and tells of rows that have no slot.
  void storeOffset();

  /// True where row `row` lies where the head's row `token` does, `slot` being that of
  /// the head's row 0.
  Expr stays(Expr row, Expr token, Expr slot) const;
  /// True where the view is the cache that is read, and where what rows carry lies where
  /// it lay.
  Expr isCache() const { return k.arg("into_in_place") > 0; }
  Expr carriesInPlace() const { return k.arg("into_states_in_place") > 0; }
  Place placeOf(Expr row) const { return {row, first + row}; }
  /// Writes an element, or a vector of them, of K (side 0) or V (1).
  void store(int side, const Place &place, Expr dim, Expr value);
  /// Writes the true position of a row, where the view has positions.
  void storePosition(Expr row, Expr position);
  /// Writes, or reads, the number of one state, in the order of the plan.
  void storeState(int64_t state, const Place &place, Expr number);
  Expr state(int64_t state, const Place &place) const;

  /// True where rows must be moved from the last one on, for rows of K and V, or of
  /// numbers: no row may be written before the one that lies there was read.
  Expr fromLast() const;
  Expr fromLast(const std::string &numbers) const;

private:
  KernelBuilder &k;
  Expr sequence, head;
  std::function<Expr(Expr head)> rowsOf;
  bool paged;
  ViewSlots slots;
  Expr kept, first, end; // of the head

  Expr atTail() const { return k.arg("into_tail") > 0; }
  Expr keptOf(Expr head) const;
  /// Slot of a head's first kept row.
  Expr firstOf(Expr head) const;
  /// The first slot behind those of a head.
  Expr endOf(Expr head) const;
  void storeFreedPages();
  Expr placeOfNumber(const std::string &name, const Place &place) const;
  Expr placeOfState(int64_t state, const Place &place) const;
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_INTOROWS_H
