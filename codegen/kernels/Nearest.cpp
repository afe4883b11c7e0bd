//===- Nearest.cpp - the most similar centre of each source ---------------===//
//
// grid (ceildiv(T, 128), Hkv, batch), 4 warps of 32 sources, which stay in
// registers while the centres go by, 16 at a time; both are read through lists.
// Similarities leave the registers as a maximum and its token only. A block
// whose sources are past the end of the list has nothing to do but its tokens'
// -1.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/WarpProduct.h"

using namespace mlir;
using namespace kvc;

static constexpr int64_t noToken = INT32_MAX;
// Below every product of cosines and norms; -1 once it is divided by the norms.
static constexpr double lowest = -3.0e38;

namespace {

using Values = KernelBuilder::Values;

class NearestBuilder : PolicyKernel {
  static constexpr int64_t warps = 4;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    addOwnArgs(kernel, site.shape, spec.args);
    spec.blockSize = warps * warpSize;
    spec.grid = {"ceildiv(tokens," + std::to_string(warps * warpSize) + ")",
                 "kv_heads", "batch"};
    return spec;
  }

public:
  NearestBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)) {}

  void build() {
    openHeadBlock();
    k.when(s.length.above(s.budget), [&] {
      for (auto [value, name] : results())
        search(value.getDefiningOp<NearestOp>(),
               scratchBuffer(k, name, value.getType()));
    });
  }

private:
  static SmallVector<CacheSide> sidesOf(NearestOp op) {
    SmallVector<CacheSide> sides{op.getSide()};
    if (std::optional<CacheSide> second = op.getTimes())
      sides.push_back(*second);
    return sides;
  }

  /// A list, a count or a norm at an item of the running head, or of the head
  /// alone.
  Expr itemOf(Value value, Expr item) { return valueAt(value, head, item); }

  void search(NearestOp op, const Buffer &result) {
    Expr zero = k.index(0);
    Expr sources = itemOf(op.getSourceCount(), zero).toIndex();
    Expr centres = itemOf(op.getCentreCount(), zero).toIndex();
    SmallVector<CacheSide> sides = sidesOf(op);
    auto listed = [&](Value list, Expr item, Expr count) {
      return itemOf(list, item.min(count - 1)).toIndex();
    };
    auto normOf = [&](size_t side, Expr token) {
      return itemOf(op.getNorms()[side], token);
    };

    Expr token = k.block(gpu::Dimension::x) * (warps * warpSize) + k.thread();
    k.when(token < s.past, [&] {
      k.when(itemOf(op.getSources(), token) == k.boolean(false),
             [&] { k.store(k.i32(-1), result, {s.sequence, head, token}); });
    });

    Expr first = (k.block(gpu::Dimension::x) * warps + k.warp()) * warpSize;
    k.when(first < sources, [&] {
      std::vector<WarpProduct> products;
      for (size_t i = 0; i < sides.size(); ++i)
        products.emplace_back(k, /*spare=*/true);
      auto sourceOf = [&](Expr column) {
        return listed(op.getSourceList(), first + column, sources);
      };
      for (auto [side, product] : llvm::zip(sides, products))
        product.loadColumns(sideBuffer(k, side), [&](Expr column) {
          return SmallVector<Expr>{s.sequence, head, sourceOf(column)};
        });
      int slots = products[0].slots();
      Values start(slots, k.f32(-std::numeric_limits<double>::infinity()));
      start.append(slots, k.i32(noToken));
      Values best =
          k.loop(zero, centres, WarpProduct::rows, start,
                 [&](Expr base, ArrayRef<Expr> carried) {
                   return step(
                       sides, products, base, carried,
                       [&](Expr row) {
                         return listed(op.getCentreList(), row, centres);
                       },
                       normOf);
                 });
      best = products[0].acrossLanes(
          best, [&](ArrayRef<Expr> a, ArrayRef<Expr> b) {
            Values next;
            for (int slot = 0; slot < slots; ++slot) {
              auto [value, token] =
                  better(a[slot], a[slots + slot], b[slot], b[slots + slot]);
              next.insert(next.begin() + slot, value);
              next.push_back(token);
            }
            return next;
          });
      Expr least = evalScalar(k, s, op.getAtLeast());
      for (int slot = 0; slot < slots; ++slot) {
        Expr column = products[0].columnOf(slot);
        // What all similarities of a source have in common is divided by once.
        Expr similarity = best[slot];
        for (size_t side = 0; side < sides.size(); ++side) {
          Expr norm = normOf(side, sourceOf(column));
          similarity = (norm == k.f32(0)).select(k.f32(0), similarity / norm);
        }
        similarity = similarity.max(k.f32(-1));
        Expr found = (similarity >= least) & (best[slots + slot] < noToken);
        k.when(products[0].ownsColumns() & (first + column < sources), [&] {
          k.store(found.select(best[slots + slot], k.i32(-1)), result,
                  {s.sequence, head, sourceOf(column)});
        });
      }
    });
  }

  /// The larger value, of equal ones the smaller token. NaN never wins.
  std::pair<Expr, Expr> better(Expr value, Expr token, Expr other,
                               Expr otherToken) {
    Expr wins = (other > value) | ((other == value) & (otherToken < token));
    return {wins.select(other, value), wins.select(otherToken, token)};
  }

  /// What products with a centre are divided by.
  struct Divisor {
    Expr isZero, scale, inverse;
  };
  Divisor divisorOf(Expr norm) {
    auto [scale, inverse] = scaledInverse(k, norm);
    return {norm == k.f32(0), scale, inverse};
  }

  /// By the centre's norm, times the source's. An infinite product is that of an
  /// infinite source, whose cosine is NaN: here already, or it would win over a zero
  /// vector's, and two infinities could pass for two cosines below 0.
  Expr cosineOf(Expr product, const Divisor &centre) {
    Expr quotient = product * centre.scale * centre.inverse;
    return centre.isZero.select(k.f32(0), quotient + quotient * k.f32(0));
  }

  /// 16 centres against the warp's sources: cosines times the sources' norms. Centres are
  /// in ascending order, so the first of equal ones has the smaller token; behind them the
  /// last one is there again, and wins nothing.
  Values step(ArrayRef<CacheSide> sides, MutableArrayRef<WarpProduct> products,
              Expr base, ArrayRef<Expr> carried,
              llvm::function_ref<Expr(Expr)> tokenOf,
              llvm::function_ref<Expr(size_t, Expr)> normOf) {
    int slots = products[0].slots();
    Values best(carried.begin(), carried.end());
    SmallVector<Values, 2> cosines(sides.size());
    for (auto [at, product] : llvm::enumerate(products)) {
      bool last = at + 1 == sides.size();
      if (at)
        k.syncWarp(); // or the second side's rows would be loaded with the
                      // first's
      size_t ordinal = 0;
      struct Centre {
        Expr token;
        Divisor divisor;
      };
      llvm::SmallDenseMap<int, Centre> centreOf; // by row of the lane
      product.multiply(
          sideBuffer(k, sides[at]),
          [&](Expr row) {
            return SmallVector<Expr>{s.sequence, head, tokenOf(base + row)};
          },
          [&](const WarpProduct::Product &p) {
            Centre &centre = centreOf[p.rowSlot];
            if (!centre.token.valid()) {
              Expr token = tokenOf(base + p.row);
              centre = {token.toI32(), divisorOf(normOf(at, token))};
            }
            int slot = p.columnSlot;
            cosines[at].push_back(cosineOf(p.value, centre.divisor));
            Expr similarity = cosines[at].back();
            if (!last)
              return;
            if (sides.size() == 2) {
              Expr a = cosines[0][ordinal++], b = similarity;
              Expr opposed = (a < k.f32(0)) & (b < k.f32(0));
              similarity = opposed.select(k.f32(lowest), a * b);
            }
            Expr wins = similarity > best[slot];
            best[slot] = wins.select(similarity, best[slot]);
            best[slots + slot] = wins.select(centre.token, best[slots + slot]);
          });
    }
    return best;
  }
};

} // namespace

void kvc::buildNearest(KernelOp kernel, const KernelSite &site) {
  NearestBuilder(kernel, site).build();
}
