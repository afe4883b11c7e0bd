//===- Interpreter.cpp - a policy, run op by op in double -----------------===//

#include "dialect/Behind.h"
#include "dialect/reference/Elementwise.h"
#include "dialect/reference/Interpreter.h"
#include "dialect/reference/MergedRows.h"
#include "dialect/reference/Window.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace kvc;
using namespace kvc::reference;

namespace {

class Interpreter {
public:
  Interpreter(PolicyOp policy, const Layer &layer, const Watch &watch)
      : policy(policy), layer(layer), watch(watch) {}

  FailureOr<Kept> run() {
    Kept kept;
    kept.tokens.resize(layer.kvHeads);
    auto keep = cast<KeepOp>(policy.getBody().front().back());
    bool ranks = layer.tokens > layer.budget;
    // What is protected decides what the past is, so scalars come first.
    if (ranks || !keep.getCarried().empty() || keep.getAtMost())
      for (Operation &op : policy.getBody().front())
        if (llvm::none_of(op.getResultTypes(), llvm::IsaPred<TensorType>) &&
            !isa<KeepOp>(op) && failed(runOp(&op)))
          return failure();
    FailureOr<std::vector<Tensor>> carried = carry(keep, /*watched=*/!ranks);
    if (failed(carried))
      return failure();
    if (ranks && failed(select(keep, kept)))
      return failure();
    if (!ranks)
      for (int64_t g = 0; g < layer.kvHeads; ++g)
        addRows(kept.tokens[g], g, 0);
    kept.atMost = bool(keep.getAtMost());
    if (layer.members && keep.getDestination())
      kept.members = reference::leftMembers(
          layer, kept, window.past,
          keep.getAtMost() ? count(whole(keep.getAtMost())) : INT64_MAX);
    for (auto [name, numbers] :
         llvm::zip(carriedNames(keep.getNamesAttr()), *carried))
      kept.carried.push_back(
          {name.str(), reference::ofKept(layer, numbers, kept, window.past),
           numbers});
    return kept;
  }

private:
  /// The numbers that rows carry, of all tokens: there is no window then.
  FailureOr<std::vector<Tensor>> carry(KeepOp keep, bool watched) {
    std::vector<Tensor> carried;
    if (keep.getCarried().empty())
      return carried;
    llvm::SetVector<Operation *> needed;
    for (Value value : keep.getCarried())
      walkBehind(value, [&](Value behind) {
        needed.insert(behind.getDefiningOp());
        return true;
      });
    isWatched = watched;
    window = Window(layer, 0);
    for (Operation &op : policy.getBody().front())
      if (needed.contains(&op) &&
          llvm::any_of(op.getResultTypes(), llvm::IsaPred<TensorType>) &&
          failed(runOp(&op)))
        return failure();
    for (Value value : keep.getCarried())
      carried.push_back(perHead(value));
    isWatched = true;
    return carried;
  }

  /// Ranks, and fills `kept`.
  LogicalResult select(KeepOp keep, Kept &kept) {
    window =
        Window(layer, keep.getProtectLast() ? whole(keep.getProtectLast()) : 0);
    for (Operation &op : policy.getBody().front())
      if (llvm::any_of(op.getResultTypes(), llvm::IsaPred<TensorType>) &&
          failed(runOp(&op)))
        return failure();
    const Tensor &mask = values.at(keep.getMask());
    if (mask.heads() > layer.kvHeads) {
      return keep.emitError(
          "the mask must be per KV head, got a value per query head");
    }
    for (int64_t g = 0; g < layer.kvHeads; ++g) {
      if (keepsAll(g)) {
        addRows(kept.tokens[g], g, 0);
        continue;
      }
      int64_t row = g / (layer.kvHeads / mask.heads());
      // Nothing else is kept where the window takes the whole budget.
      for (int64_t t = 0; t < window.ends[g] && window.rows[g] < layer.budget;
           ++t)
        if (window.isPast[g][t] && mask.data[row * window.past + t] != 0)
          kept.tokens[g].push_back(t);
      addRows(kept.tokens[g], g, window.ends[g]);
    }
    if (keep.getDestination()) {
      // The search is shown too, so that a judge can tell near ties.
      auto search = cast<NearestOp>(keep.getDestination().getDefiningOp());
      kept.merge = {sidesOf(search),
                    perHead(search.getSources()),
                    perHead(search.getCentres()),
                    get(keep.getDestination()),
                    perHead(keep.getWeight()),
                    get(search.getAtLeast()).data[0],
                    keep.getSharePositions()};
    }
    // Nothing is ranked where the windows take the whole budget.
    bool ranks = llvm::any_of(
        window.rows, [&](int64_t rows) { return layer.budget > rows; });
    if (ranks && ranked) {
      kept.past = window.past;
      for (int64_t g = 0; g < layer.kvHeads; ++g) {
        std::vector<double> &scores =
            kept.scores.emplace_back(window.past, NAN);
        for (int64_t t = 0; t < window.past; ++t)
          if (window.isPast[g][t])
            scores[t] = ranked->data[g * window.past + t];
        bool none = keepsAll(g) || window.rows[g] >= layer.budget;
        kept.ranked.push_back(none ? std::vector<bool>(window.past)
                                   : window.isPast[g]);
      }
    }
    return success();
  }

  PolicyOp policy;
  const Layer &layer;
  const Watch &watch;
  bool isWatched = true;
  Window window; // of what is being run
  std::optional<Tensor> ranked;
  std::map<Value, Tensor, bool (*)(Value, Value)> values{
      [](Value a, Value b) { return a.getImpl() < b.getImpl(); }};

  std::vector<const std::vector<double> *> sidesOf(NearestOp op) const {
    std::vector<const std::vector<double> *> sides{&rowsOf(op.getSide())};
    if (std::optional<CacheSide> second = op.getTimes())
      sides.push_back(&rowsOf(*second));
    return sides;
  }

  const std::vector<double> &rowsOf(CacheSide side) const {
    return side == CacheSide::Key     ? layer.k
           : side == CacheSide::Value ? layer.v
                                      : layer.kRaw;
  }

  int64_t rowsOf(int64_t g) const {
    int64_t rows = 0;
    for (int64_t t = 0; t < layer.tokens; ++t)
      rows += layer.hasRow(g, t);
    return rows;
  }

  /// A head's tokens from `first` on.
  void addRows(std::vector<int64_t> &tokens, int64_t g, int64_t first) const {
    for (int64_t t = first; t < layer.tokens; ++t)
      if (layer.hasRow(g, t))
        tokens.push_back(t);
  }

  /// A head with at most B rows keeps them. Where heads share the budget, they do
  /// so together; where layers do, only few tokens say so, where both do, either.
  bool keepsAll(int64_t g) const {
    bool ofLayers = false, ofHeads = false;
    policy->walk([&](Operation *op) {
      ofLayers |= isa<AllocateLayersOp, AllocateTableOp>(op);
      ofHeads |= isa<AllocateHeadsOp>(op);
    });
    if (!ofHeads)
      return !ofLayers && rowsOf(g) <= layer.budget;
    int64_t rows = 0;
    for (int64_t h = 0; h < layer.kvHeads; ++h)
      rows += rowsOf(h);
    // A layer that has no share of its own has the window's; with one all heads take
    // part.
    return rows <= (ofLayers ? window.whole : layer.budget) * layer.kvHeads;
  }

  /// Counts that every KV head has but for window rows that it lacks.
  Tensor counts(llvm::function_ref<double(int64_t)> ofHead) const {
    Tensor result{{Axis::KVHeads}, {layer.kvHeads}, {}};
    for (int64_t g = 0; g < layer.kvHeads; ++g)
      result.data.push_back(ofHead(g) + double(window.whole - window.rows[g]));
    return result;
  }

  /// An op that looks along a head's tokens sees those of its past; along those of
  /// all heads, what is in some head's past.
  Tensor alongTokens(const Tensor &value,
                     llvm::function_ref<Tensor(const Tensor &)> op) const {
    if (layer.rows.empty())
      return op(value);
    std::vector<bool> some(window.past);
    for (const std::vector<bool> &head : window.isPast)
      for (int64_t t = 0; t < window.past; ++t)
        some[t] = some[t] || head[t];
    bool ofAll = value.axes.front() == Axis::OneHead;
    return reference::ofMarked(
        value, ofAll ? std::vector<std::vector<bool>>{some} : window.isPast,
        [&](const Tensor &head, int64_t) { return op(head); });
  }

  std::vector<int64_t> allocateHeads(AllocateHeadsOp op) {
    auto [numerator, denominator] = ratio(op.getSafeguard());
    std::vector<int64_t> base = wholes(op.getBase());
    // A head whose window takes the whole budget takes no part.
    std::vector<std::vector<bool>> ranked = window.isPast;
    for (int64_t g = 0; g < layer.kvHeads; ++g)
      if (window.rows[g] >= layer.budget) {
        base[g] = 0;
        ranked[g].assign(window.past, false);
      }
    return reference::allocateHeads(perHead(op.getScore()), base, numerator,
                                    denominator, ranked);
  }

  static Tensor scalar(Number x) { return {{}, {}, {x.real}, x.whole}; }
  static Tensor scalar(int64_t x) { return scalar(Number::ofWhole(x)); }
  const Tensor &get(Value value) { return values.at(value); }
  /// A number of tokens; far more than there are is as good as any such.
  int64_t whole(Value value) {
    return std::clamp(get(value).whole, -most, most);
  }
  static constexpr int64_t most = int64_t(1) << 62;

  int64_t extent(Axis heads) const {
    return heads == Axis::QueryHeads ? layer.qHeads
           : heads == Axis::KVHeads  ? layer.kvHeads
                                     : 1;
  }

  LogicalResult runOp(Operation *op) {
    if (isa<KeepOp>(op))
      return success();
    FailureOr<Tensor> result = compute(op);
    if (failed(result))
      return failure();
    if (watch && isWatched) {
      SmallVector<const Tensor *> operands;
      for (Value operand : op->getOperands())
        operands.push_back(&get(operand));
      watch(op, operands, *result);
    }
    values[op->getResult(0)] = std::move(*result);
    return success();
  }

  FailureOr<Tensor> compute(Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op)) {
      if (auto integer = dyn_cast<IntegerAttr>(param.getValue()))
        return scalar(integer.getInt());
      if (isa<StringAttr>(param.getValue()))
        return scalar(0); // a fraction
      return scalar(
          Number::ofReal(cast<FloatAttr>(param.getValue()).getValueAsDouble()));
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return computeConstant(constant);
    if (isa<BudgetOp>(op))
      return scalar(layer.budget);
    if (isa<LengthOp>(op))
      return scalar(layer.tokens);
    if (isa<NewQueriesOp>(op))
      return scalar(layer.newQueries.value_or(layer.tokens));
    if (isa<SinceOp>(op))
      return scalar(layer.since);
    if (isa<LayerOp>(op))
      return scalar(layer.layer);
    if (isa<LayersOp>(op))
      return scalar(layer.layers);
    if (isa<FractionOp>(op))
      return scalar(0); // read where it is used, as a ratio
    if (auto attention = dyn_cast<AttentionOp>(op))
      return attend(attention);
    if (auto norm = dyn_cast<NormOp>(op))
      return reference::norm(layer, rowsOf(norm.getSide()), window.past,
                             norm.getKind() == NormKind::L2);
    if (auto vectors = dyn_cast<VectorsOp>(op))
      return reference::vectors(layer, rowsOf(vectors.getSide()), window.past);
    if (auto count = dyn_cast<CountRowsOp>(op)) {
      Tensor result{{Axis::KVHeads}, {layer.kvHeads}, {}};
      for (int64_t g = 0; g < layer.kvHeads; ++g)
        result.data.push_back(
            double(count.getAll() ? layer.countRows(g, layer.tokens)
                                  : llvm::count(window.isPast[g], true)));
      return result;
    }
    if (auto count = dyn_cast<CountMassOp>(op)) {
      double rest = get(count.getAllBut()).data[0];
      return alongTokens(perHead(count.getScore()), [&](const Tensor &score) {
        std::vector<int64_t> counts = reference::countMass(score, rest);
        return Tensor{
            {Axis::KVHeads}, {score.heads()}, {counts.begin(), counts.end()}};
      });
    }
    if (auto search = dyn_cast<NearestOp>(op))
      return reference::nearest(
          layer, sidesOf(search), perHead(search.getSources()),
          perHead(search.getCentres()), get(search.getAtLeast()).data[0]);
    if (auto norm = dyn_cast<ProjectedNormOp>(op)) {
      // The norm is the tightest of its bounds.
      Tensor result = reference::projectedNorm(layer, window.past,
                                               norm.getKind() == NormKind::L2);
      if (norm.getWhere()) {
        Tensor mask = reference::broadcast(get(norm.getWhere()), result.axes,
                                           result.shape);
        for (size_t i = 0; i < result.data.size(); ++i)
          result.data[i] = mask.data[i] != 0 ? result.data[i] : 0;
      }
      return result;
    }
    if (auto position = dyn_cast<PositionOp>(op))
      return position.getRow()
                 ? reference::rowNumbers(layer, window.past,
                                         position.getFromEnd())
                 : reference::position(
                       window.past, position.getFromEnd() ? layer.tokens : 0);
    if (auto fill = dyn_cast<FillOp>(op)) {
      Tensor number = scalar(Number::ofReal(fill.getValue().convertToFloat()));
      return computeRepeated(fill, number);
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return computeBroadcast(broadcast);
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return computeReduce(reduce);
    if (auto pool = dyn_cast<PoolOp>(op))
      return alongTokens(get(pool.getValue()), [&](const Tensor &value) {
        return reference::pool(value, whole(pool.getWidth()),
                               pool.getKind() == PoolKind::Max,
                               pool.getCountPadding());
      });
    if (auto segment = dyn_cast<SegmentOp>(op))
      return alongTokens(get(segment.getValue()), [&](const Tensor &value) {
        return reference::segment(value, segment.getKind(),
                                  whole(segment.getLength()),
                                  whole(segment.getFrom()), segment.getNext());
      });
    if (isa<AllocateOp>(op))
      return counts(
          [&](int64_t) { return double(layer.budget - window.whole); });
    if (auto layers = dyn_cast<AllocateLayersOp>(op)) {
      auto [numerator, denominator] = ratio(layers.getRatio());
      double each = double(reference::allocateLayers(
          layer.budget - window.whole, layer.tokens - window.whole, layer.layer,
          layer.layers, numerator, denominator));
      return counts([&](int64_t) { return each; });
    }
    if (auto heads = dyn_cast<AllocateHeadsOp>(op)) {
      std::vector<int64_t> counts = allocateHeads(heads);
      return Tensor{
          {Axis::KVHeads}, {layer.kvHeads}, {counts.begin(), counts.end()}};
    }
    if (auto kept = dyn_cast<KeptLayersOp>(op)) {
      Tensor result{{Axis::OneHead, Axis::Past}, {1, window.past}, {}};
      for (int64_t t = 0; t < window.past; ++t)
        result.data.push_back(layer.keptLayers[t] /
                              (kept.getShare() ? double(layer.layer + 1) : 1));
      return result;
    }
    if (auto state = dyn_cast<RowStateOp>(op))
      return rowState(state);
    if (auto table = dyn_cast<AllocateTableOp>(op)) {
      // As much as the past for each head is all of it, and more is no more.
      auto most = [&](Value value) {
        return std::min(count(whole(value)), layer.tokens - window.whole);
      };
      std::vector<int64_t> shares = reference::allocateTable(
          layer, most(table.getBase()), most(table.getShared()),
          layer.tokens - window.whole);
      return counts([&](int64_t g) { return double(shares[g]); });
    }
    if (auto select = dyn_cast<SelectHeadsOp>(op)) {
      Tensor marks = reference::selectHeads(get(select.getValue()),
                                            whole(select.getCount()),
                                            select.getEnd() == End::Lowest);
      return computeRepeated(select, marks);
    }
    if (auto scale = dyn_cast<ScaleCountOp>(op)) {
      auto [numerator, denominator] = ratio(scale.getShare());
      if (scale.getOver())
        std::swap(numerator, denominator);
      // As the kernels' integers wrap: 64 bits, and 32 of a tensor's.
      auto scaled = [&, n = numerator, d = denominator](int64_t number) {
        return uint64_t(count(number)) * uint64_t(n) / uint64_t(d);
      };
      Tensor result = get(scale.getCount());
      if (result.axes.empty())
        return scalar(int64_t(scaled(result.whole)));
      for (double &number : result.data)
        number = double(int32_t(scaled(int64_t(number))));
      return result;
    }
    if (auto topk = dyn_cast<TopkOp>(op))
      return computeTopk(topk);
    return computeElementwise(op);
  }

  FailureOr<Tensor> computeConstant(arith::ConstantOp op) {
    if (auto integer = dyn_cast<IntegerAttr>(op.getValue()))
      return scalar(integer.getType().isInteger(1)
                        ? int64_t(integer.getValue().getZExtValue())
                        : integer.getInt());
    if (auto real = dyn_cast<FloatAttr>(op.getValue()))
      return scalar(Number::ofReal(real.getValueAsDouble()));
    op.emitError("the reference has no meaning for this constant");
    return failure();
  }

  Tensor rowState(RowStateOp op) const {
    Tensor result{
        {Axis::KVHeads, Axis::Past}, {layer.kvHeads, window.past}, {}};
    auto found = layer.rowStates.find(op.getName().str());
    for (int64_t g = 0; g < layer.kvHeads; ++g)
      for (int64_t t = 0; t < window.past; ++t)
        result.data.push_back(found != layer.rowStates.end()
                                  ? found->second[g * layer.tokens + t]
                                  : 0);
    return result;
  }

  Tensor attend(AttentionOp op) {
    std::optional<Layer> members;
    if (op.getMembers())
      members = reference::cacheOfMembers(layer);
    const Layer &cache = members ? *members : layer;
    int64_t last = whole(op.getLast()),
            past = members ? layer.tokens : window.past;
    Tensor result = op.getLogits() ? reference::logits(cache, last, past)
                                   : reference::attention(cache, last, past,
                                                          op.getRounded());
    if (members)
      result.axes.back() = Axis::Member;
    return result;
  }

  FailureOr<Tensor> computeBroadcast(BroadcastOp op) {
    Tensor value = get(op.getValue());
    if (op.getValue().getType().isIndex()) // becomes i32, perhaps f32 then
      value.data = {double(int32_t(value.whole))};
    return computeRepeated(op, value);
  }

  FailureOr<Tensor> computeRepeated(AxesOpInterface op, const Tensor &value) {
    AxisList axes;
    if (failed(op.inferAxes({value.axes}, axes)))
      return failure();
    std::vector<int64_t> shape{value.axes.empty() ? 1 : extent(value.axes[0])};
    // A window made from nothing has one row, which every row repeats.
    if (axes.size() == 3)
      shape.push_back(axes[1] == Axis::Channel  ? layer.headDim
                      : value.shape.size() == 3 ? value.shape[1]
                                                : 1);
    if (axes.size() > 1)
      shape.push_back(window.past);
    return reference::broadcast(value, axes, shape);
  }

  FailureOr<Tensor> computeReduce(ReduceOp op) {
    const Tensor &value = get(op.getValue());
    ReduceKind kind = op.getKind();
    switch (op.getAxis()) {
    case ReduceAxis::Queries:
      return reference::reduce(value, 1, kind);
    case ReduceAxis::Tokens:
      return alongTokens(value, [&](const Tensor &along) {
        return reference::reduce(along, along.shape.size() - 1, kind);
      });
    case ReduceAxis::Channels:
      return reference::reduce(value, 1, kind);
    case ReduceAxis::Group:
      return reference::reduceGroup(value, layer.kvHeads, kind);
    case ReduceAxis::Heads:
      return value.axes.back() == Axis::Past && !layer.rows.empty()
                 ? reference::reduceHeads(value, kind, window.isPast)
                 : reference::reduceHeads(value, kind);
    case ReduceAxis::Members:
      return reference::reduceMembers(layer, value, window.past, kind);
    }
    return failure();
  }

  FailureOr<Tensor> computeTopk(TopkOp op) {
    Tensor scores = perHead(op.getScore());
    // What is shown is what the kept tokens are ranked by; where they are made of
    // several selections, the last one's.
    auto keep = cast<KeepOp>(policy.getBody().front().back());
    if (!keep.getMask().getDefiningOp<TopkOp>() ||
        keep.getMask() == op.getResult())
      ranked = scores;
    std::vector<int64_t> counts = wholes(op.getCount());
    return reference::ofMarked(scores, window.isPast,
                               [&](const Tensor &score, int64_t head) {
                                 return reference::topk(score, {counts[head]});
                               });
  }

  /// A number of tokens below 0 counts as 0.
  static int64_t count(int64_t tokens) { return std::max<int64_t>(tokens, 0); }

  /// A count per KV head.
  std::vector<int64_t> wholes(Value value) {
    const Tensor &tensor = get(value);
    std::vector<int64_t> counts;
    for (int64_t g = 0; g < layer.kvHeads; ++g)
      counts.push_back(
          count(int64_t(tensor.data[g / (layer.kvHeads / tensor.heads())])));
    return counts;
  }

  /// A value per token of each KV head.
  Tensor perHead(Value value) {
    return reference::broadcast(get(value), {Axis::KVHeads, Axis::Past},
                                {layer.kvHeads, window.past});
  }

  /// The exact value of a fraction, from its text.
  static std::pair<int64_t, int64_t> ratio(Value value) {
    if (auto fraction = value.getDefiningOp<FractionOp>())
      return fraction.getRatio();
    auto param = value.getDefiningOp<ParamOp>();
    return *parseFraction(cast<StringAttr>(param.getValue()).getValue());
  }

  /// Operands are brought to the widest heads and the window, if one has it.
  FailureOr<Tensor> computeElementwise(Operation *op) {
    Tensor result;
    for (Value operand : op->getOperands()) {
      const Tensor &value = get(operand);
      if (value.axes.empty())
        continue;
      if (result.axes.empty()) {
        result.axes = value.axes;
        result.shape = value.shape;
      }
      result.axes[0] = joinHeads(result.axes[0], value.axes[0]);
      // One row is every row's; of new queries there may be none.
      if (value.axes.size() == 3 && value.shape[1] != 1)
        result.shape[1] = value.shape[1];
    }
    if (result.axes.empty()) {
      Number number;
      SmallVector<Number> x;
      for (Value operand : op->getOperands())
        x.push_back({get(operand).data[0], get(operand).whole});
      if (failed(evaluate(op, x, number)))
        return failure();
      return scalar(number);
    }
    result.shape[0] = extent(result.axes[0]);
    SmallVector<Tensor> operands;
    for (Value operand : op->getOperands())
      operands.push_back(broadcastLike(get(operand), result));
    if (failed(evaluate(op, operands, result)))
      return failure();
    return result;
  }
};

} // namespace

void kvc::reference::eraseUnused(PolicyOp policy) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(policy.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

FailureOr<Kept> kvc::reference::interpret(PolicyOp policy, const Layer &layer,
                                          const Watch &watch) {
  return Interpreter(policy, layer, watch).run();
}
