//===- ColumnsNorms.cpp - norms behind the projection in a columns kernel -===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/ProjectedNorm.h"
#include "codegen/kernels/RowStates.h"
#include "codegen/kernels/ThreadBlock.h"

using namespace mlir;
using namespace kvc;

bool ColumnsBuilder::gathers() const {
  if (projectedNorms.empty() || attends || walksHeads())
    return false;
  Value mask = ProjectedNormOp(projectedNorms.front()).getWhere();
  return mask && headsOf(mask.getType()) != Axis::QueryHeads &&
         llvm::all_of(projectedNorms, [&](ProjectedNormOp op) {
           return op.getWhere() == mask;
         });
}

void ColumnsBuilder::runGathered(KernelBuilder &k, const SequenceScalars &s) {
  Expr head = k.block(gpu::Dimension::y);
  Expr first = (k.block(gpu::Dimension::x) * warps + k.warp()) * gatherTokens;
  Value mask = ProjectedNormOp(projectedNorms.front()).getWhere();
  LeafReader leaf = [&, this](Value value, const Point &p) {
    return readColumn(k, s, value, p);
  };
  k.when(hasWork(k, s, kernel) & (first < s.past), [&] {
    for (ProjectedNormOp norm : projectedNorms)
      for (int j = 0; j < k.shape.group; ++j)
        finished[{norm, j}] = k.f32(0);
    Expr count =
        k.fold(0, gatherTokens, warpSize, k.i32(0), [&](Expr chunk, Expr acc) {
           Expr token = first + chunk + k.lane(), exists = token < s.past;
           Point point{head, -1, {}, token.min(s.past - 1)};
           PointEval eval(k, s, leaf, point);
           Expr marked = eval(mask);
           storeOutputs(k, s, eval, point,
                        exists & (marked == k.boolean(false)), false);
           Expr bits = k.ballot(exists & marked);
           Expr place = acc + bitsBelow(k, bits);
           k.when(exists & marked, [&] {
             k.store(token.toI32(), gathered, {k.warp(), place.toIndex()});
           });
           return acc + k.popcount(bits);
         }).toIndex();
    k.syncWarp(); // the list is complete
    k.loop(0, count, warpSize, [&](Expr base) {
      auto listed = [&](Expr column) {
        Expr item = (base + column).min(count - 1);
        return k.load(gathered, {k.warp(), item}).toIndex();
      };
      finished.clear();
      Point point{head, -1, {}, listed(k.lane())};
      for (ProjectedNormOp norm : projectedNorms)
        projectNorm(k, norm, s, point, listed);
      PointEval eval(k, s, leaf, point);
      storeOutputs(k, s, eval, point, base + k.lane() < count, false);
    });
    finished.clear();
  });
}

void ColumnsBuilder::projectNorm(KernelBuilder &k, ProjectedNormOp op,
                                 const SequenceScalars &s, const Point &point,
                                 llvm::function_ref<Expr(Expr)> tokenOf) {
  WarpProduct product(k, /*spare=*/projectedNorms.size() > 1 || halo > 0);
  Point own = point;
  if (hasRow.valid()) // the lane's column is another's token
    own.token = tokenOf(k.lane());
  product.loadColumns(sideBuffer(k, CacheSide::Value), [&](Expr column) {
    return SmallVector<Expr>{s.sequence, point.kvHead, tokenOf(column)};
  });
  KernelBuilder::Values bounds = boundNorms(k, op, s, own, product, tokenOf);
  for (int j = 0; j < k.shape.group; ++j) {
    Expr head = point.kvHead * k.shape.group + j;
    Expr norm = op.getBound() ? bounds[j]
                              : projectedNorm(k, op, s, product, head, normSums,
                                              staged ? &*staged : nullptr);
    if (hasRow.valid()) {
      k.syncWarp(); // earlier sums have been read
      k.store(norm, normSums, {k.warp(), k.lane()});
      k.syncWarp();
      norm = k.load(normSums, {k.warp(), columnOf(k, point)});
    }
    if (op.getWhere() && !gathers()) {
      PointEval eval(
          k, s,
          [&, this](Value value, const Point &p) {
            return readColumn(k, s, value, p);
          },
          point);
      norm = eval(op.getWhere(), j).select(norm, k.f32(0));
    }
    finished[{op, j}] = norm;
  }
}

/// Bounds for all members of the group, in a loop: for each the same code.
KernelBuilder::Values
ColumnsBuilder::boundNorms(KernelBuilder &k, ProjectedNormOp op,
                           const SequenceScalars &s, const Point &own,
                           WarpProduct &product,
                           llvm::function_ref<Expr(Expr)> tokenOf) {
  if (!op.getBound())
    return {};
  int64_t group = k.shape.group;
  Expr squares = squaredNorm(k, s, product, own, tokenOf, normSums);
  return k.loop(0, group, 1, KernelBuilder::Values(group, k.f32(0)),
                [&](Expr member, ArrayRef<Expr> carried) {
                  Expr head = own.kvHead * group + member;
                  Expr bound =
                      projectedNormBound(k, op, site, s, product, own, head,
                                         tokenOf, normSums, squares);
                  KernelBuilder::Values next;
                  for (int64_t j = 0; j < group; ++j)
                    next.push_back((member == j).select(bound, carried[j]));
                  return next;
                });
}
