//===- ColumnsNorms.cpp - norms behind the projection in a columns kernel -===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Gram.h"
#include "codegen/kernels/ProjectedNorm.h"

using namespace mlir;
using namespace kvc;

void ColumnsBuilder::projectNorm(KernelBuilder &k, ProjectedNormOp op,
                                 const SequenceScalars &s, const Point &point,
                                 llvm::function_ref<Expr(Expr)> tokenOf) {
  WarpProduct product(k, /*spare=*/projectedNorms.size() > 1 || halo > 0,
                      WarpProduct::Stays::Columns, tiles);
  Point own = point;
  if (hasRow.valid()) // the lane's column is another's token
    own.token = tokenOf(k.lane());
  KernelBuilder::Values bounds;
  if (panels) {
    storeNormsTogether(k, op, s, point);
  } else {
    product.loadColumns(sideBuffer(k, CacheSide::Value), [&](Expr column) {
      return SmallVector<Expr>{s.sequence, point.kvHead, tokenOf(column)};
    });
    bounds = boundNorms(k, op, s, own, product, tokenOf);
    if (!op.getBound())
      storeNorms(k, op, s, point, product);
    else if (hasRow.valid())
      storeBounds(k, bounds);
  }
  for (int j = 0; j < k.shape.group; ++j)
    forTiles(k, s, point, [&](int64_t number, const Point &at) {
      Expr norm =
          op.getBound() && !hasRow.valid()
              ? bounds[j]
              : k.load(normsOfTiles,
                       {k.warp(), k.index(number * k.shape.group + j),
                        hasRow.valid() ? columnOf(k, point) : k.lane()});
      if (op.getWhere()) {
        PointEval eval(
            k, s,
            [&, this](Value value, const Point &p) {
              return readColumn(k, s, value, p);
            },
            at);
        norm = eval(op.getWhere(), j).select(norm, k.f32(0));
      }
      finishedTiles[number][{op, j}] = norm;
    });
}

/// Where a lane's token is in another's column.
void ColumnsBuilder::storeBounds(KernelBuilder &k,
                                 llvm::ArrayRef<Expr> bounds) {
  k.syncWarp(); // earlier ones have been read
  for (auto [member, bound] : llvm::enumerate(bounds))
    k.store(bound, normsOfTiles, {k.warp(), k.index(member), k.lane()});
  k.syncWarp();
}

/// Of all members, in a loop: norms that wait for those of the next would take registers
/// that its products need.
void ColumnsBuilder::storeNorms(KernelBuilder &k, ProjectedNormOp op,
                                const SequenceScalars &s, const Point &point,
                                WarpProduct &product) {
  int64_t group = k.shape.group;
  k.syncWarp(); // earlier norms have been read
  k.loop(0, group, 1, [&](Expr member) {
    KernelBuilder::Values norms =
        projectedNorm(k, op, s, product, point.kvHead * group + member,
                      normSums, staged ? &*staged : nullptr);
    for (auto [number, norm] : llvm::enumerate(norms))
      k.store(norm, normsOfTiles,
              {k.warp(), member + int64_t(number) * group, k.lane()});
  });
  k.syncWarp();
}

/// Bounds for all members of the group, in a loop: for each the same code. Of a
/// form of the whole group, the bound of the mean for each.
KernelBuilder::Values
ColumnsBuilder::boundNorms(KernelBuilder &k, ProjectedNormOp op,
                           const SequenceScalars &s, const Point &own,
                           WarpProduct &product,
                           llvm::function_ref<Expr(Expr)> tokenOf) {
  if (!op.getBound())
    return {};
  int64_t group = k.shape.group;
  auto boundOf = [&](Expr head) {
    return projectedNormBound(k, op, site, s, product, own, head, tokenOf,
                              normSums, staged ? &*staged : nullptr);
  };
  // The mean of equal numbers is the bound of the mean.
  if (GramBuffers::ofGroups(kernel->getParentOfType<PolicyOp>()))
    return KernelBuilder::Values(group, boundOf(own.kvHead));
  return k.loop(0, group, 1, KernelBuilder::Values(group, k.f32(0)),
                [&](Expr member, ArrayRef<Expr> carried) {
                  Expr head = own.kvHead * group + member;
                  Expr bound = boundOf(head);
                  KernelBuilder::Values next;
                  for (int64_t j = 0; j < group; ++j)
                    next.push_back((member == j).select(bound, carried[j]));
                  return next;
                });
}
