//===- ViewSlots.h - where the slots of a cache view lie -------------------===//
//
// A view (kvc/cache.h) is numbers that a kernel gets as arguments: those of the cache
// that is read by their plain names (starts, k_table, ...), those of the cache that kept
// rows are written into behind "into_".
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_VIEWSLOTS_H
#define KVC_CODEGEN_KERNELS_VIEWSLOTS_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// Adds `stem` followed by each of the parts to the arguments.
void addParts(std::vector<std::string> &args, const std::string &stem,
              std::initializer_list<const char *> parts);

/// The slots of all heads of a view.
class ViewSlots {
public:
  /// Adds where heads' slots begin, and a side's pages, to the arguments.
  static void addArgs(std::vector<std::string> &args, const std::string &prefix,
                      bool paged, const std::string &side);

  /// `prefix`: "" or "into_".
  ViewSlots(KernelBuilder &k, std::string prefix, bool paged)
      : k(k), prefix(std::move(prefix)), paged(paged) {}

  /// The slot of a head's row 0, as the caller says it.
  Expr given(Expr sequence, Expr head) const;
  /// One of the slots, whatever the caller says.
  Expr first(Expr sequence, Expr head) const;
  /// The table's entry for a slot, as the caller says it.
  Expr page(const std::string &side, Expr sequence, Expr head, Expr slot) const;
  /// True where that entry is a page of the pool.
  Expr hasPage(const std::string &side, Expr sequence, Expr head,
               Expr slot) const;
  /// Where element `element` of a slot lies in memory `name`: with NAME_batch,
  /// NAME_head, and NAME_token or NAME_row as `row` says, and, paged, NAME_page and the
  /// table of `side`. An entry that is no page of the pool leads to one of its ends, so
  /// that no memory outside is read.
  Expr place(const std::string &name, const char *row, const std::string &side,
             Expr sequence, Expr head, Expr slot, Expr element) const;
  /// The same of a number that lies where keys do, NAME_row behind each other.
  Expr placeOfNumber(const std::string &name, Expr sequence, Expr head,
                     Expr slot) const;

private:
  KernelBuilder &k;
  std::string prefix;
  bool paged;

  Expr arg(const std::string &name) const { return k.arg(prefix + name); }
};

/// A number of the sequence and head: argument `name`.
Expr numberOf(KernelBuilder &k, const std::string &name, Expr sequence,
              Expr head);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_VIEWSLOTS_H
