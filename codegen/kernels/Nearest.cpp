//===- Nearest.cpp - the most similar centre of each source ---------------===//
//
// grid (ceildiv(T, 128), Hkv, batch), 4 warps of 32 sources, which stay in
// registers while the centres go by, 16 at a time; both are read through lists.
// The block copies the centres into shared memory, for all of its warps, and divides by
// their norms once (ListedRows.h: up to 44 KiB, a barrier for 32 centres); without tensor
// cores, and of heads of more than 128 channels, each warp reads them where they are,
// without shared memory or a barrier. Similarities leave the registers as a maximum and
// its place in the list only. A block whose sources are past the end of the list has
// nothing to do but its tokens' -1. Reads the block's sources once, long ones again for
// each 16 centres, and all centres of the head; writes 4 bytes a token.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Cosines.h"
#include "codegen/kernels/ListedRows.h"
#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/WarpProduct.h"

using namespace mlir;
using namespace kvc;

static constexpr int64_t noCentre = INT32_MAX;
// Below every product of cosines and norms; -1 once it is divided by the norms.
static constexpr double lowest = -3.0e38;

namespace {

using Values = KernelBuilder::Values;

class NearestBuilder : PolicyKernel {
  static constexpr int64_t warps = 4, threads = warps * warpSize;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    addOwnArgs(kernel, site.shape, spec.args);
    spec.blockSize = threads;
    spec.grid = {"ceildiv(tokens," + std::to_string(threads) + ")", "kv_heads",
                 "batch"};
    return spec;
  }

public:
  NearestBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)) {}

  void build() {
    size_t sides = 0;
    for (NearestOp op : kernel.getBody().getOps<NearestOp>())
      sides = std::max(sides, sidesOf(op).size());
    int64_t numbers = sides * cosineNumbers;
    int64_t rows = ListedRows::rowsFor(k.shape, sides, numbers);
    // Long sources are read again for every product: that takes all registers.
    if (rows && !WarpProduct::hasLongHeads(k))
      staged.emplace(k, threads, rows, sides, numbers);
    openHeadBlock();
    k.when(s.length.above(s.budget), [&] {
      for (auto [value, name] : results())
        search(value.getDefiningOp<NearestOp>(),
               scratchBuffer(k, name, value.getType()));
    });
  }

private:
  /// The centres, where tensor cores multiply them.
  std::optional<ListedRows> staged;

  static SmallVector<CacheSide> sidesOf(NearestOp op) {
    SmallVector<CacheSide> sides{op.getSide()};
    if (std::optional<CacheSide> second = op.getTimes())
      sides.push_back(*second);
    return sides;
  }

  /// A list, a count or a norm at an item of the running head, or of the head
  /// alone.
  Expr itemOf(Value value, Expr item) { return valueAt(value, head, item); }
  /// Item of a list of so many, or its last one; i32.
  Expr listed(Value list, Expr item, Expr count) {
    return itemOf(list, item.min(count - 1));
  }
  SmallVector<Expr> rowOf(Expr token) { return {s.sequence, head, token}; }

  void search(NearestOp op, const Buffer &result) {
    Expr zero = k.index(0);
    Expr sources = itemOf(op.getSourceCount(), zero).toIndex();
    Expr centres = itemOf(op.getCentreCount(), zero).toIndex();
    Expr ofBlock = k.block(gpu::Dimension::x) * threads;
    Expr token = ofBlock + k.thread();
    Expr none = centres < 1;
    k.when(token < s.past, [&] {
      Expr isSource = itemOf(op.getSources(), token);
      k.when(none | (isSource == k.boolean(false)),
             [&] { k.store(k.i32(-1), result, rowOf(token)); });
    });
    Expr first = ofBlock + k.warp() * warpSize;
    // All warps of a block copy centres.
    k.when(((staged ? ofBlock : first) < sources) & (centres > 0),
           [&] { searchFor(op, first, sources, centres, result); });
  }

  /// Of the warp's sources, from `first` on; those behind the last one are that one.
  void searchFor(NearestOp op, Expr first, Expr sources, Expr centres,
                 const Buffer &result) {
    SmallVector<CacheSide> sides = sidesOf(op);
    auto sourceOf = [&](Expr column) {
      return listed(op.getSourceList(), first + column, sources).toIndex();
    };
    std::vector<WarpProduct> products;
    for (size_t i = 0; i < sides.size(); ++i)
      products.emplace_back(k, /*spare=*/true);
    for (auto [side, product] : llvm::zip(sides, products))
      product.loadColumns(sideBuffer(k, side),
                          [&](Expr column) { return rowOf(sourceOf(column)); });
    int slots = products[0].slots();
    Values best(slots, k.f32(-std::numeric_limits<double>::infinity()));
    best.append(slots, k.i32(noCentre));
    best = staged ? walkStaged(op, products, centres, best)
                  : walkListed(op, products, centres, best);
    best =
        products[0].acrossLanes(best, [&](ArrayRef<Expr> a, ArrayRef<Expr> b) {
          Values next;
          for (int slot = 0; slot < slots; ++slot) {
            auto [value, centre] =
                better(a[slot], a[slots + slot], b[slot], b[slots + slot]);
            next.insert(next.begin() + slot, value);
            next.push_back(centre);
          }
          return next;
        });
    storeFound(
        op, products[0], best, sourceOf,
        [&](Expr column) { return first + column < sources; }, result);
  }

  /// Stores the best centre of each source, where one is similar enough.
  void storeFound(NearestOp op, WarpProduct &product, ArrayRef<Expr> best,
                  llvm::function_ref<Expr(Expr column)> sourceOf,
                  llvm::function_ref<Expr(Expr column)> exists,
                  const Buffer &result) {
    int slots = product.slots();
    Expr least = evalScalar(k, s, op.getAtLeast());
    Values sources, found;
    for (int slot = 0; slot < slots; ++slot) {
      sources.push_back(sourceOf(product.columnOf(slot)));
      // What all similarities of a source have in common is divided by once.
      Expr similarity = best[slot];
      for (Value norms : op.getNorms()) {
        Expr norm = itemOf(norms, sources.back());
        similarity = (norm == k.f32(0)).select(k.f32(0), similarity / norm);
      }
      similarity = similarity.max(k.f32(-1));
      Expr centre = best[slots + slot], any = centre < noCentre;
      Expr token = staged ? itemOf(op.getCentreList(),
                                   any.select(centre, k.i32(0)).toIndex())
                          : centre;
      found.push_back((any & (similarity >= least)).select(token, k.i32(-1)));
    }
    k.syncWarp(); // or each slot would wait for what only it reads
    for (int slot = 0; slot < slots; ++slot)
      k.when(product.ownsColumns() & exists(product.columnOf(slot)),
             [&] { k.store(found[slot], result, rowOf(sources[slot])); });
  }

  /// The larger value, of equal ones the smaller number. NaN never wins.
  std::pair<Expr, Expr> better(Expr value, Expr number, Expr other,
                               Expr otherNumber) {
    Expr wins = (other > value) | ((other == value) & (otherNumber < number));
    return {wins.select(other, value), wins.select(otherNumber, number)};
  }

  /// 16 centres: their vectors and divisors, by side, and numbers in the order of their
  /// tokens, i32.
  struct Centres {
    std::function<Buffer(size_t side)> memory;
    std::function<SmallVector<Expr>(Expr row)> address;
    std::function<Values(size_t side, Expr row)> divisor;
    std::function<Expr(Expr row)> number;
  };

  /// The centres through shared memory, divisors with them. Their numbers are those of
  /// the list: tokens are looked up behind the walk.
  Values walkStaged(NearestOp op, MutableArrayRef<WarpProduct> products,
                    Expr count, ArrayRef<Expr> start) {
    ListedRows::Source source;
    for (CacheSide side : sidesOf(op))
      source.sides.push_back(sideBuffer(k, side));
    source.count = count;
    source.address = [&](Expr token) { return rowOf(token); };
    source.token = [&](Expr row) { return itemOf(op.getCentreList(), row); };
    source.read = [&](Expr token) {
      Values norms;
      for (Value norm : op.getNorms())
        norms.push_back(itemOf(norm, token));
      return norms;
    };
    source.make = [&](ArrayRef<Expr> norms) {
      Values numbers;
      for (Expr norm : norms)
        numbers.append(cosineDivisor(k, norm));
      return numbers;
    };
    return staged->walk(
        source, start, [&](Expr base, Expr place, ArrayRef<Expr> carried) {
          return step(products,
                      {[&](size_t side) { return staged->side(side); },
                       [&](Expr row) { return SmallVector<Expr>{place + row}; },
                       [&](size_t side, Expr row) {
                         return staged->numbers(
                             place + row, side * cosineNumbers, cosineNumbers);
                       },
                       [&](Expr row) { return (base + row).toI32(); }},
                      carried);
        });
  }

  /// The centres where they are. Their numbers are their tokens.
  Values walkListed(NearestOp op, MutableArrayRef<WarpProduct> products,
                    Expr count, ArrayRef<Expr> start) {
    return k.loop(
        0, count, WarpProduct::rows, start,
        [&](Expr base, ArrayRef<Expr> carried) {
          auto tokenOf = [&](Expr row) {
            return listed(op.getCentreList(), base + row, count).toIndex();
          };
          return step(
              products,
              {[&](size_t side) { return sideBuffer(k, sidesOf(op)[side]); },
               [&](Expr row) { return rowOf(tokenOf(row)); },
               [&](size_t side, Expr row) {
                 return cosineDivisor(
                     k, itemOf(op.getNorms()[side], tokenOf(row)));
               },
               [&](Expr row) { return tokenOf(row).toI32(); }},
              carried);
        });
  }

  /// 16 centres against the warp's sources: cosines times the sources' norms. Centres are
  /// in ascending order, so the first of equal ones has the smaller token; behind them the
  /// last one is there again, and wins nothing.
  Values step(MutableArrayRef<WarpProduct> products, const Centres &centres,
              ArrayRef<Expr> carried) {
    int slots = products[0].slots();
    Values best(carried);
    SmallVector<Values, 2> cosines(products.size());
    for (auto [at, product] : llvm::enumerate(products)) {
      bool last = at + 1 == products.size();
      if (at && !staged)
        k.syncWarp(); // or the second side's rows would be loaded with the
                      // first's
      size_t ordinal = 0;
      struct Centre {
        Values divisor;
        Expr number;
      };
      llvm::SmallDenseMap<int, Centre> centreOf; // by row of the lane
      product.multiply(
          centres.memory(at), centres.address,
          [&](const WarpProduct::Product &p) {
            Centre &centre = centreOf[p.rowSlot];
            if (centre.divisor.empty())
              centre = {centres.divisor(at, p.row), centres.number(p.row)};
            int slot = p.columnSlot;
            Expr similarity = cosineOf(k, p.value, centre.divisor);
            cosines[at].push_back(similarity);
            if (!last)
              return;
            if (products.size() == 2) {
              Expr a = cosines[0][ordinal++], b = similarity;
              Expr opposed = (a < k.f32(0)) & (b < k.f32(0));
              similarity = opposed.select(k.f32(lowest), a * b);
            }
            Expr wins = similarity > best[slot];
            best[slot] = wins.select(similarity, best[slot]);
            best[slots + slot] = wins.select(centre.number, best[slots + slot]);
          });
    }
    return best;
  }
};

} // namespace

void kvc::buildNearest(KernelOp kernel, const KernelSite &site) {
  NearestBuilder(kernel, site).build();
}
