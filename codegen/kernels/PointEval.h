//===- PointEval.h - a kernel's body at one point -------------------------===//
//
// Tensor ops of a fused kernel become scalar code at one (head, query, token)
// point, pulled from the values that are stored. This is what makes fusion
// general: a kernel builder provides the loops and the leaves, never the
// formula.
//
// A PointEval makes a value once and then has it: what was first asked for
// inside k.when, k.choose or a loop must not be asked for behind it, where that
// code does not dominate. Make one where it is used, or ask before.
//
// A loop that a reduction or a pool makes has a PointEval of its own for its body.
// What does not vary in that loop it has from the one outside, made in front of the
// loop: however deep reductions are nested, each value is code once for each level
// that it varies in.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_POINTEVAL_H
#define KVC_CODEGEN_KERNELS_POINTEVAL_H

#include "codegen/kernels/SequenceScalars.h"

#include <optional>

namespace kvc {

/// A point of the iteration space. `member` is the query head within its
/// group, -1 where the value has no query heads. Where lanes have different
/// members, `laneMember` is the lane's, and `member` says nothing. In a cache of rows
/// `token` is a row of the head; where there is no head, a true position.
struct Point {
  Expr kvHead; // not valid: what is asked for is one for all heads
  int member = -1;
  Expr query; // for values with that axis
  Expr token;
  Expr channel = {}; // of a vector, for values with that axis
  Expr laneMember = {};
  /// Where vectors are evaluated an access at a time: its first channel, and which of
  /// its channels this is.
  Expr access = {};
  int64_t element = 0;
};

/// Reads a value that is in memory or in registers.
using LeafReader =
    std::function<std::optional<Expr>(mlir::Value value, const Point &point)>;

class PointEval {
public:
  PointEval(KernelBuilder &kernel, const SequenceScalars &scalars,
            LeafReader leaf, Point point)
      : k(kernel), s(scalars), leaf(std::move(leaf)), point(point) {}

  /// The value at the point, per query head `member` where it has query heads.
  Expr operator()(mlir::Value value, int member = -1);

  /// A vector's value at the point at `width` channels from `first` on, a
  /// multiple of it: what is in the cache is read at once.
  llvm::SmallVector<Expr> channels(mlir::Value value, Expr first, int64_t width,
                                   int member = -1);

  /// What a pool of kind mean divides at the point, and by how many: f32 both.
  Expr poolSum(class PoolOp pool, int member);
  Expr poolCount(class PoolOp pool);

private:
  /// The PointEval around a loop, and where it was when the loop was made.
  struct Outside {
    PointEval *eval;
    mlir::Block *block;
    Axis looped; // what varies in the loop
  };

  PointEval(const PointEval &other, LeafReader leaf, Point point,
            Outside outside)
      : k(other.k), s(other.s), leaf(std::move(leaf)), point(point),
        outside(outside) {}

  /// For the body of a loop over `looped` that is made at the present place.
  Outside aroundLoop(Axis looped) {
    return {this, k.b.getInsertionBlock(), looped};
  }
  /// True if the value is the same in all steps of the loop around this one.
  bool isFromOutside(mlir::Value value) const;
  /// Code is made in front of the loop from here on.
  void goOutside();
  Expr madeOutside(mlir::Value value, int member);
  llvm::SmallVector<Expr> channels(mlir::Value value, Expr first, int64_t width,
                                   int member, Outside around);
  Expr compute(mlir::Value value, int member);
  Expr reduceHeads(class ReduceOp reduce);
  Expr reduceMembers(class ReduceOp reduce);
  Expr reduceChannels(class ReduceOp reduce, int member);
  Expr pool(class PoolOp pool, int member);
  std::pair<Expr, Expr> neighbours(class PoolOp pool);
  Expr norm(class NormOp norm);
  /// A quotient of vectors, where all channels have one divisor: a product with its
  /// inverse, which is made once. Not valid: any other op.
  Expr scaledQuotient(mlir::Operation *op, int member);
  /// scaledInverse, made once.
  std::pair<Expr, Expr> inverseOf(mlir::Value value, int member);
  Expr cloneScalar(mlir::Operation *op, int member);

  KernelBuilder &k;
  const SequenceScalars &s;
  LeafReader leaf;
  Point point;
  std::optional<Outside> outside;
  llvm::DenseMap<std::pair<mlir::Value, int>, Expr> known;
  llvm::DenseMap<std::pair<mlir::Value, int>, std::pair<Expr, Expr>> inverses;
};

/// How many values a pool reads of its neighbours where they are at few places in memory,
/// and read all together: what it pools is stored, or elementwise made of what is. 0: not
/// so.
int64_t readAtOnce(PoolOp pool, const Shape &shape);

/// The true position of a head's row, index: of a dense prompt its number.
Expr positionOf(KernelBuilder &k, const SequenceScalars &s, Expr head,
                Expr row);
/// Of a point's token, inside the sequence whatever the caller says.
Expr positionOf(KernelBuilder &k, const SequenceScalars &s, const Point &point);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_POINTEVAL_H
