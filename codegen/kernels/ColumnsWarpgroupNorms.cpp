//===- ColumnsWarpgroupNorms.cpp - norms by products of warpgroups --------===//
//
// The form of a columns kernel with norms behind the output projection for GPUs that
// multiply by warpgroups: the same block of 4 warps with the same 256 tokens, whose values
// stay in registers as four times 64 columns of a product, 16 a warp. For each member of
// the group, rounds of 64 rows of its projection are multiplied with all of them
// (PanelRows.h); products leave the registers as sums of their sizes, at the end of the
// member as norms, for the lanes that have the tokens.
//
// An SM holds two blocks: one adds up while the other one multiplies. Shared memory: two
// rounds, norms by token; one barrier a round, one more a member.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Columns.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

using Values = KernelBuilder::Values;

bool ColumnsBuilder::hasDenseNorms() const {
  return !attends && projectedNorms.size() == 1 && computesNorms() &&
         warps == 4 && tiles == 2 && !halo &&
         PanelRows::bytesFor(site.shape) + warps * bytesPerWarp() +
                 tokenWarps() * bytesPerPiece() <=
             maxSharedBytes;
}

void ColumnsBuilder::storeNormsTogether(KernelBuilder &k, ProjectedNormOp op,
                                        const SequenceScalars &s,
                                        const Point &point) {
  constexpr int64_t groupColumns = 64;
  bool l2 = op.getKind() == NormKind::L2;
  int64_t group = k.shape.group, parts = warps * tokensPerWarp() / groupColumns;
  SmallVector<Values> values;
  for (int64_t part = 0; part < parts; ++part)
    values.push_back(columnFragment(k, s, point.kvHead, CacheSide::Value,
                                    blockStart + part * groupColumns +
                                        k.warp() * WarpProduct::rows));
  Expr hidden = k.arg("hidden");
  k.loop(0, group, 1, [&](Expr member) {
    Expr head = point.kvHead * group + member;
    RowSource source = {
        projectionBuffer(k),
        [&](Expr row) { return SmallVector<Expr>{s.sequence, head, row}; },
        hidden, 1, k.arg("wo_row")};
    k.barrier(); // the last member's rows have been read
    // Outputs that there are not add nothing.
    auto begin = [&](Expr first) {
      panels->begin(source, first, PanelRows::Behind::Zeros);
    };
    begin(k.index(0));
    Values sums = k.loop(
        0, hidden, PanelRows::rows, Values(parts * 2, k.f32(0)),
        [&](Expr first, ArrayRef<Expr> carried) {
          panels->finish();
          k.barrier(); // the round is there, and the last one is read
          begin(first + PanelRows::rows);
          // While products are added the SM's other block multiplies.
          Values next(carried);
          for (int64_t part = 0; part < parts; ++part) {
            Values products =
                panels->waitFor(panels->multiply(values[part], first));
            PanelRows::visit(k, products, int(part) * 2,
                             [&](const WarpProduct::Product &p) {
                               Expr size = l2 ? p.value * p.value
                                              : p.value.unary<math::AbsFOp>();
                               next[p.columnSlot] = next[p.columnSlot] + size;
                             });
          }
          return next;
        });
    for (auto [slot, sum] : llvm::enumerate(sums)) {
      Expr norm = reduceLanesFrom(k, ReduceKind::Sum, sum, 1, 4);
      if (l2)
        norm = k.sqrt(norm);
      // The tile of the warp that has the token.
      Expr column =
          k.warp() * WarpProduct::rows + k.lane() / 4 + int64_t(slot) % 2 * 8;
      SmallVector<Expr> at = {k.index(int64_t(slot) / 2),
                              column / warpSize * group + member,
                              column % warpSize};
      k.when(k.lane() % 4 == 0, [&] { k.store(norm, normsOfTiles, at); });
    }
  });
  k.barrier();
}
