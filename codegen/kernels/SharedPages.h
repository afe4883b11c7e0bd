//===- SharedPages.h - a page that rows move in is one list's --------------===//
//
// Where rows move within pages, a page that another sequence or head has as well, or that
// one list has twice, is written over. Where the host can read the tables it refuses such
// a call (runtime/cache/WrittenPages.cpp); on a GPU the kernel that moves rows looks.
//
// Blocks share the pool: each walks the lists and marks the pages of its share, a bit of
// shared memory for each. A page that has its mark already is told. A share of more pages
// than there are bits is walked in parts.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_SHAREDPAGES_H
#define KVC_CODEGEN_KERNELS_SHAREDPAGES_H

#include "codegen/kernels/CacheRows.h"
#include "codegen/kernels/ViewSlots.h"

namespace kvc {

class SharedPages {
public:
  /// True where rows may move within pages.
  static bool mayBe(const Shape &shape) {
    return shape.isPaged() && shape.into == Into::Paged;
  }
  /// Beside those of the cache's rows, of both sides and of the view (IntoRows).
  static void addArgs(std::vector<std::string> &args) {
    addParts(args, "into_pools", {""});
  }

  /// Of the block of `threads` threads that looks for this head of this sequence.
  /// `rowsOf`: the rows of any. Takes 17 KiB of shared memory.
  using RowsOf = std::function<HeadRows(Expr sequence, Expr head)>;
  SharedPages(KernelBuilder &k, Expr sequence, Expr head, int64_t threads,
              RowsOf rowsOf);

  /// Sets KVC_DATA_CACHE in `status` where a page of the block's share is in two entries
  /// that have rows. The whole block calls it, which has barriers inside.
  void tell();

private:
  /// The pages of one head's rows, or of one sequence's where heads share them.
  struct List {
    Expr sequence, head;
  };

  KernelBuilder &k;
  Expr sequence, head;
  const int64_t threads;
  RowsOf rowsOf;
  ViewSlots slots;
  Buffer marks, firsts, ends; // a bit for each page; entries of lists

  /// Heads have places of their own in a page: a page may be in lists of several.
  Expr headsApart() { return (k.arg("k_head") == 0) == k.boolean(false); }
  List listOf(Expr number);
  Expr endOfFormer(const List &list);
  void open(Expr number, Expr place);
  void markLists(Expr pool, Expr first, Expr pages);
  void mark(const char *side, const List &list, Expr place, Expr first,
            Expr pages);
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_SHAREDPAGES_H
