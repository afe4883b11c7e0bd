//===- Norms.cpp - norms behind the projection of listed tokens -----------===//
//
// grid (ceildiv(T, 32 * warps), Hq, batch): a block has the values of 32 tokens of a
// list for each warp, and one query head. They stay in registers while the head's
// slice of the projection goes by, staged by the block (StagedRows.h); fp32 has no
// rounds, and each warp reads the slice for itself. A block behind the end of the list
// has nothing to do but its tokens' 0. Sums are those of a columns kernel, bit for bit.
//
// 4 warps. Shared memory: two rounds, as many rows as 48 KiB have room for, and 128 bytes
// a warp. A barrier a round; fp32 has none. Reads d * bytes a listed token for each query
// head, and the head's slice once a block; writes 4 bytes a token.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/ProjectedNorm.h"
#include "codegen/kernels/RowStates.h"

using namespace mlir;
using namespace kvc;

namespace {

class NormsBuilder : PolicyKernel {
  static constexpr int64_t warps = 4;
  static constexpr int64_t bytesPerWarp = WarpProduct::columns * 4;

  /// With as many rows of a round as are left room for; 0 without rounds.
  static int64_t stagedRows(const Shape &shape) {
    if (!StagedRows::suits(shape))
      return 0;
    return StagedRows::rowsThatFit(shape,
                                   maxSharedBytes - warps * bytesPerWarp);
  }

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    addOwnArgs(kernel, site.shape, spec.args);
    spec.blockSize = warps * warpSize;
    spec.grid = {"ceildiv(tokens," + std::to_string(spec.blockSize) + ")",
                 "q_heads", "batch"};
    return spec;
  }

public:
  NormsBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)) {
    if (int64_t rows = stagedRows(site.shape))
      staged.emplace(k, warps * warpSize, rows);
    sums = k.shared(k.b.getF32Type(), warps * WarpProduct::columns,
                    {k.index(WarpProduct::columns)});
  }

  void build() {
    k.startLate();
    queryHead = k.block(gpu::Dimension::y);
    head = queryHead / k.shape.group;
    s = openHead(k, k.block(gpu::Dimension::z), head, yield);
    clearBuffers(k, kernel, s.sequence);
    k.when(hasWork(k, s, kernel), [&] {
      for (auto [value, name] : results())
        compute(value.getDefiningOp<ProjectedNormOp>(),
                scratchBuffer(k, name, value.getType()));
    });
  }

private:
  std::optional<StagedRows> staged;
  Buffer sums;
  Expr queryHead;

  void compute(ProjectedNormOp op, const Buffer &result) {
    Expr first = k.block(gpu::Dimension::x) * (warps * warpSize);
    Expr token = first + k.thread();
    k.when(token < s.past, [&] {
      Expr marked = valueAt(op.getWhere(), head, token);
      k.when(marked == k.boolean(false), [&] {
        k.store(k.f32(0), result, {s.sequence, queryHead, token});
      });
    });
    Expr count = valueAt(op.getList()[1], head, k.index(0)).toIndex();
    Expr own = first + k.warp() * warpSize;
    // Warps that share rounds go the same way.
    k.when((staged ? first : own) < count, [&] {
      auto tokenOf = [&](Expr column) {
        return valueAt(op.getList()[0], head, (own + column).min(count - 1))
            .toIndex();
      };
      WarpProduct product(k);
      product.loadColumns(sideBuffer(k, CacheSide::Value), [&](Expr column) {
        return SmallVector<Expr>{s.sequence, head, tokenOf(column)};
      });
      Expr norm = projectedNorm(k, op, s, product, queryHead, sums,
                                staged ? &*staged : nullptr)[0];
      k.when(own + k.lane() < count, [&] {
        k.store(norm, result, {s.sequence, queryHead, tokenOf(k.lane())});
      });
    });
  }
};

} // namespace

void kvc::buildNorms(KernelOp kernel, const KernelSite &site) {
  NormsBuilder(kernel, site).build();
}
