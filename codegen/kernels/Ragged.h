//===- Ragged.h - rows of the ragged cache that a kernel writes -----------===//

#ifndef KVC_CODEGEN_KERNELS_RAGGED_H
#define KVC_CODEGEN_KERNELS_RAGGED_H

#include "codegen/edsl/KernelBuilder.h"

namespace kvc {

/// The rows of one KV head of one sequence in k_out and v_out: head after head,
/// `slack` free rows behind each; what does not fit is dropped, and the status
/// word says so.
class Ragged {
public:
  static void addArgs(std::vector<std::string> &args);

  /// Rows that a head keeps, at most index_capacity.
  static Expr countOf(KernelBuilder &k, Expr sequence, Expr head);

  /// `count`: rows of this head, at most index_capacity, as `countOf` says it of those in
  /// front, whatever is known of them: by default countOf().
  Ragged(KernelBuilder &k, Expr sequence, Expr head, Expr count,
         llvm::function_ref<Expr(Expr head)> countOf = nullptr);

  /// How many rows are kept and fit.
  Expr rows() const { return fitting; }
  /// True for rows that are kept and fit.
  Expr has(Expr row) const { return row < fitting; }
  /// Where among the rows of the sequence a head's row is written.
  Expr place(Expr row) const { return offset + row; }
  /// By one thread of a head: writes its first row to `offsets`.
  void storeOffset();
  /// Writes the true position of a row.
  void storePosition(Expr row, Expr position);
  /// Writes an element, or a vector of them, of k_out (side 0) or v_out (1).
  void store(int side, Expr row, Expr dim, Expr value);

private:
  KernelBuilder &k;
  Expr sequence, head, offset, count, fitting;
  Buffer out[2];
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_RAGGED_H
