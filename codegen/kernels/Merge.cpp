//===- Merge.cpp - the means of each row's members, into the ragged cache -===//
//
// grid (index_capacity / 4, Hkv, batch), 4 warps, a warp per kept row; lane =
// dimension. The warp looks for the tokens of its row (JoinedTokens.h) once and adds them
// up, in ascending order, with their weights and without: only behind the last one it
// knows which of the sums counts. A row of one member is copied. Writes the norms of the
// table on the way; of a merged cache the table has been written.
//
// No shared memory, no stages and no barriers: a warp needs nothing of the others. Each
// warp reads its head's table, 4 bytes an entry, which is in L2 behind the first; reads
// 2 * d * bytes a member, and writes as much a kept row, 4 bytes a member's norm, and what
// rows carry.
//
// Where kept rows go into a view (Shape::into) that is the cache itself, a mean goes
// where the row lies: a member is one row's only, so nobody else reads what was there.
// Then Place.cpp moves the rows. Into another view a mean goes where it belongs.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/IntoRows.h"
#include "codegen/kernels/JoinedTokens.h"
#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/Ragged.h"
#include "codegen/kernels/RowStates.h"

#include "llvm/Support/MathExtras.h"

#include <optional>

using namespace mlir;
using namespace kvc;

namespace {

using Values = KernelBuilder::Values;

class MergeBuilder : PolicyKernel {
  static constexpr int64_t warps = 4;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    auto add = [&](std::initializer_list<const char *> args) {
      for (const char *arg : args)
        addArg(spec.args, arg);
    };
    bool packs = site.shape.into == Into::Packed;
    bool merged = site.shape.isMerged();
    bool carries =
        !(*kernel.getBody().getOps<MergeOp>().begin()).getCarried().empty();
    if (packs)
      Ragged::addArgs(spec.args);
    else
      IntoRows::addArgs(spec.args, site.shape, carries);
    if (merged || !packs)
      add({"indices"});
    if (merged && packs)
      add({"positions_out"});
    JoinedTokens::addArgs(site.shape, spec.args);
    addOwnArgs(kernel, site.shape, spec.args);
    if (carries && packs)
      CarriedRows::addArgs(spec.args);
    spec.overwrites = !packs;
    spec.blockSize = warps * warpSize;
    spec.grid = {"ceildiv(index_capacity," + std::to_string(warps) + ")",
                 "kv_heads", "batch"};
    return spec;
  }

public:
  MergeBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)),
        op(*kernel.getBody().getOps<MergeOp>().begin()) {}

  void build() {
    openHeadBlock();
    joined.emplace(k, s, head,
                   [this](Expr entry) { return read(op.getTokens(), entry); });
    Expr row = k.block(gpu::Dimension::x) * warps + k.warp();
    if (k.shape.into == Into::Packed)
      pack(row);
    else
      place(row);
  }

private:
  using Store = llvm::function_ref<void(int side, Expr dim, Expr mean)>;

  MergeOp op;
  std::optional<JoinedTokens> joined;

  /// Behind the head's other rows, in memory of their own.
  void pack(Expr row) {
    if (ofMerged())
      tellRows();
    Expr count = Ragged::countOf(k, s.sequence, head);
    // The first warp has the head's offset to write, of no rows as well.
    k.when(row < count.max(k.index(1)), [&] { packRow(row, count); });
  }

  void packRow(Expr row, Expr count) {
    Ragged rows(k, s.sequence, head, count);
    k.when((row == 0) & (k.lane() == 0), [&] { rows.storeOffset(); });
    k.when(rows.has(row), [&] {
      if (ofMerged()) // a kept row keeps its position, whatever joins it
        k.when(k.lane() == 0, [&] {
          Expr own = keptAs(k, s.sequence, head, row);
          rows.storePosition(row, positionOf(k, s, head, own));
        });
      merge(row, /*stays=*/Expr(), [&](int side, Expr dim, Expr mean) {
        rows.store(side, row, dim, mean);
      });
      CarriedRows carried(k, s.sequence);
      if (!op.getCarried().empty())
        k.when(carried.wanted(), [&] {
          carry(row, [&](int64_t state, Expr sum) {
            carried.store(state, rows.place(row), sum);
          });
        });
    });
  }

  /// Into a view. What a warp reads of its row's own token it may write over.
  void place(Expr row) {
    auto rowsOf = [this](Expr h) {
      return HeadRows(k, s.sequence, h, s.length);
    };
    IntoRows into(k, s.sequence, head,
                  [=](Expr h) { return rowsOf(h).count(); });
    k.when(row < into.count(), [&] {
      Expr token = keptAs(k, s.sequence, head, row);
      IntoRows::Place to = into.placeOf(row);
      Expr first = rowsOf(head).firstSlot();
      auto where = [&](Expr inPlace) {
        return IntoRows::Place{inPlace.select(token, to.row),
                               inPlace.select(first + token, to.slot)};
      };
      IntoRows::Place ofRow = where(into.isCache());
      k.when(into.isCache() | into.fits(row), [&] {
        // Rows of a merged cache that nobody joins are what they were.
        Expr stays = ofMerged() ? into.isCache() : Expr();
        merge(row, stays, [&](int side, Expr dim, Expr mean) {
          into.store(side, ofRow, dim, mean);
        });
      });
      if (op.getCarried().empty())
        return;
      IntoRows::Place ofNumbers = where(into.carriesInPlace());
      Expr wanted = k.arg("carries") > 0;
      k.when(wanted & (into.carriesInPlace() | into.fits(row)), [&] {
        carry(row, [&](int64_t state, Expr sum) {
          into.storeState(state, ofNumbers, sum);
        });
      });
    });
  }

  /// Makes the means of a row's members. `stays`, if it is valid: that of a row of one
  /// member is there already.
  void merge(Expr row, Expr stays, Store store) {
    // The number and weight of the members, then their sums, and those times weights.
    const size_t n = 2 * pieces();
    Values start{k.i32(0), k.f32(0)};
    start.append(2 * n, k.f32(-0.0));
    Values totals = joined->over(
        row, start, [&](Expr entry, Expr token, ArrayRef<Expr> carried) {
          Expr weight = weightOf(token);
          Values next{carried[0] + 1, carried[1] + weight};
          Values member = memberAt(entry, token);
          for (auto [x, sum] : llvm::zip(member, carried.slice(2, n)))
            next.push_back(sum + x);
          for (auto [x, sum] : llvm::zip(member, carried.drop_front(2 + n)))
            next.push_back(sum + weight * x);
          return next;
        });
    Expr single = totals[0] == 1, plain = totals[1] == k.f32(0);
    Values sums;
    for (size_t i = 0; i < n; ++i)
      sums.push_back((single | plain).select(totals[2 + i], totals[2 + n + i]));
    Expr divisor = plain.select(totals[0].toFloat(), totals[1]);
    divisor = single.select(k.f32(1), divisor);
    beforeStores();
    auto storeMeans = [&] {
      for (int side : {0, 1})
        for (int64_t piece = 0; piece < pieces(); ++piece)
          inRow(piece, [&](Expr dim) {
            store(side, dim, k.narrow(sums[side * pieces() + piece] / divisor));
          });
    };
    if (stays.valid())
      k.when((stays & single) == k.boolean(false), storeMeans);
    else
      storeMeans();
  }

  /// Where a row may be written over that lanes still read.
  void beforeStores() {
    if (k.shape.into != Into::Packed)
      k.syncWarp();
  }

  /// Rows that are merged already are merged as they are: what a row takes up is rows
  /// with the members that are theirs, and the table has been written.
  bool ofMerged() const { return k.shape.isMerged(); }

  /// Of a merged cache every row is looked at.
  void tellRows() {
    constexpr int64_t threads = warps * warpSize;
    Expr blocks = (k.arg("index_capacity") + (warps - 1)) / warps;
    HeadRows(k, s.sequence, head, s.length)
        .tell(k.block(gpu::Dimension::x) * threads + k.thread(),
              blocks * threads);
  }

  /// Runs of 32 dimensions of a row.
  int64_t pieces() const { return llvm::divideCeil(k.shape.headDim, warpSize); }
  void inRow(int64_t piece, llvm::function_ref<void(Expr)> body) {
    Expr dim = k.lane() + piece * warpSize;
    if ((piece + 1) * warpSize <= k.shape.headDim)
      body(dim);
    else
      k.when(dim < k.shape.headDim, [&] { body(dim); });
  }

  /// What a row's members carry, added up.
  void carry(Expr row, llvm::function_ref<void(int64_t state, Expr)> store) {
    Values sums = joined->over(row, Values(op.getCarried().size(), k.f32(0)),
                               [&](Expr, Expr token, ArrayRef<Expr> before) {
                                 Values next;
                                 for (auto [value, sum] :
                                      llvm::zip(op.getCarried(), before))
                                   next.push_back(sum + read(value, token));
                                 return next;
                               });
    beforeStores();
    k.when(k.lane() == 0, [&] {
      for (auto [state, sum] : llvm::enumerate(sums))
        store(int64_t(state), sum);
    });
  }

  Expr read(Value value, Expr token) { return valueAt(value, head, token); }
  Expr weightOf(Expr token) { return read(op.getWeight(), token); }

  /// The lane's part of a member: unit key and value.
  Values memberAt(Expr entry, Expr token) {
    SmallVector<Values, 2> vectors(2);
    for (CacheSide side : {CacheSide::RawKey, CacheSide::Value})
      for (int64_t piece = 0; piece < pieces(); ++piece) {
        Expr dim = k.lane() + piece * warpSize;
        Expr exists = dim < k.shape.headDim;
        Expr x = k.load(
            sideBuffer(k, side),
            {s.sequence, head, token, dim.min(k.index(k.shape.headDim - 1))});
        vectors[side == CacheSide::Value].push_back(
            exists.select(x.widen(), k.f32(0)));
      }
    Expr norm = ofMerged() ? Expr() : joined->noteNorm(entry, vectors[0]);
    Values member;
    for (Expr x : vectors[0])
      member.push_back(
          norm.valid() ? (norm == k.f32(0)).select(k.f32(0), x / norm) : x);
    member.append(vectors[1]);
    return member;
  }
};

} // namespace

void kvc::buildMerge(KernelOp kernel, const KernelSite &site) {
  MergeBuilder(kernel, site).build();
}
