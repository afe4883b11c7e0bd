//===- Uniformity.h - what the lanes of a warp have in common --------------===//
//
// Of each value of a kernel: is it the same in all lanes that are at the same place,
// does it grow by a constant from lane to lane, or is nothing known? Of each branch
// and loop: do the lanes of a warp go the same way?
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_LOWER_UNIFORMITY_H
#define KVC_CODEGEN_LOWER_UNIFORMITY_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kvc {

struct LaneForm {
  enum Kind {
    /// One value for all lanes.
    Uniform,
    /// base + stride * lane, in the arithmetic of the type; base is one for all.
    Linear,
    Varying
  };
  Kind kind = Uniform;
  int64_t stride = 0;
  /// A power of two, at most `maxMultiple`, that divides the value, or the base of a
  /// linear one.
  int64_t multiple = 1;
  /// Bit i: lanes l and l ^ (1 << i) have the same. All five: uniform.
  unsigned exchanges = allExchanges;

  static constexpr int64_t maxMultiple = 64;
  static constexpr unsigned allExchanges = 31;
  bool isUniform() const { return kind == Uniform; }
  bool operator==(const LaneForm &other) const {
    return kind == other.kind && stride == other.stride &&
           multiple == other.multiple && exchanges == other.exchanges;
  }
};

class Uniformity {
public:
  explicit Uniformity(mlir::gpu::GPUFuncOp kernel);

  LaneForm of(mlir::Value value) const { return forms.lookup(value); }
  /// True for a branch or loop whose condition, bounds or step are not the same in
  /// all lanes.
  bool diverges(mlir::Operation *op) const;

private:
  llvm::DenseMap<mlir::Value, LaneForm> forms;

  void visit(mlir::Block &block);
  void visit(mlir::Operation &op);
  void visit(mlir::scf::IfOp op);
  void visit(mlir::scf::ForOp op);
  LaneForm resultOf(mlir::Operation &op) const;
  LaneForm quotientOf(mlir::Operation &op, bool remainder) const;
  LaneForm amongOperands(mlir::Operation &op) const;
  unsigned exchangedBy(mlir::Operation &op) const;
  LaneForm productOf(mlir::Operation &op) const;
};

} // namespace kvc

#endif // KVC_CODEGEN_LOWER_UNIFORMITY_H
