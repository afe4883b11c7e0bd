//===- RowBlock.cpp - one block, one KV head: what its parts share --------===//

#include "codegen/kernels/RowBlock.h"

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

static Expr atLeastOne(KernelBuilder &k, Expr tokens, int64_t each) {
  return ((tokens + (each - 1)) / each).max(k.index(1));
}

RowSplits::RowSplits(KernelBuilder &k, const SequenceScalars &s)
    : times(atLeastOne(k, s.rows, most * splitTokens)),
      inverse(k.f32(1) / times.toFloat()) {}

Expr RowSplits::count(Expr tokens) const {
  return (tokens + (length() - 1)) / length();
}

/// In f32, which is exact: halfway between two whole numbers, over 2^12 at most, is
/// further from one than 1024 of these can be wrong by.
Expr RowSplits::of(Expr token) const {
  Expr middle = (token / splitTokens).toFloat() + inverse.same(0.5);
  return (middle * inverse).truncate().toIndex();
}

Expr RowBlock::spanLength(KernelBuilder &k, const SequenceScalars &s) {
  constexpr int64_t ofSpan = RowSplits::most / mostSpans;
  constexpr int64_t least = spanTokens / splitTokens;
  static_assert(ofSpan == 16 * least);
  // `whole` times the least length is enough. Of longer splits a span has 48 or 64.
  Expr whole = atLeastOne(k, s.rows, spanTokens * mostSpans);
  Expr split = atLeastOne(k, s.rows, splitTokens * RowSplits::most);
  Expr fewer = split * 12, all = split * 16;
  Expr ofSplits = (whole > fewer).select(all, fewer);
  return (split == 1).select(whole, ofSplits) * spanTokens;
}

std::string RowBlock::spanCount() {
  return "min(ceildiv(tokens," + std::to_string(spanTokens) + ")," +
         std::to_string(mostSpans) + ")";
}

int64_t RowBlock::members(Value value) const {
  return headsOf(value.getType()) == Axis::QueryHeads ? k.shape.group : 1;
}

/// How far pools of the kernel reach, if all of them are read at once, else 0; and how many
/// values those of a group's members read of a token's neighbours.
static std::pair<int64_t, int64_t> poolsAtOnce(KernelOp kernel,
                                               const Shape &shape) {
  int64_t reach = 0, ofGroups = 0;
  for (auto pool : kernel.getBody().getOps<PoolOp>()) {
    int64_t reads = readAtOnce(pool, shape);
    if (!reads)
      return {0, 0};
    reach = std::max(reach, constantOf(pool.getWidth()) / 2);
    if (headsOf(pool.getType()) == Axis::QueryHeads)
      ofGroups += reads;
  }
  return {reach, ofGroups};
}

std::optional<Expr> RowBlock::madeAt(Value value, const Point &point) const {
  auto it = made.find({value, Value(point.token)});
  return it == made.end() ? std::optional<Expr>() : it->second;
}

void RowBlock::storeAlongside(Value value) {
  if (stored.insert(value).second)
    alongside.push_back({value, outputOf(value)});
}

void RowBlock::forTokens(llvm::function_ref<Values(Expr)> make,
                         llvm::function_ref<void(Expr, ArrayRef<Expr>)> use) {
  auto makeAll = [&](Expr token) {
    PointEval eval = at(token);
    Values own;
    for (const Output &output : alongside)
      own.push_back(made[{output.value, token}] = eval(output.value));
    Values values = make(token);
    values.append(own);
    return values;
  };
  auto useAll = [&](Expr token, ArrayRef<Expr> values, ArrayRef<Expr>) {
    for (auto [output, value] :
         llvm::zip(alongside, values.take_back(alongside.size())))
      k.store(value, output.memory, {s.sequence, head, token});
    use(token, values.drop_back(alongside.size()));
    return Values();
  };
  auto [reach, ofGroups] = poolsAtOnce(kernel, k.shape);
  // With more tokens their loads take registers for half of the SM's threads.
  constexpr int64_t mostLoads = 32;
  int64_t inFlight =
      ofGroups ? std::clamp<int64_t>(mostLoads / ofGroups, 1, together)
               : together;
  Expr inner = begin, outer = end;
  if (reach) {
    inner = begin.max(k.index(reach)).min(end);
    outer = (s.past - reach).min(end).max(inner);
  }
  s.neighboursExist = reach > 0;
  k.stream(inner + k.thread(), outer, block.threads, {}, makeAll, useAll,
           inFlight);
  s.neighboursExist = false;
  if (reach) {
    // The others are a few at the ends of the past.
    Expr front = inner - begin, others = front + (end - outer);
    k.loop(k.thread(), others, block.threads, [&](Expr i) {
      Expr token = (i < front).select(begin + i, outer + (i - front));
      useAll(token, makeAll(token), {});
    });
  }
  made.clear();
}

Expr RowBlock::overTokens(ReduceKind kind,
                          llvm::function_ref<Expr(Expr)> value) {
  Expr mine = k.stream(
      begin + k.thread(), end, block.threads, {reductionStart(k, kind)},
      [&](Expr token) { return Values{value(token)}; },
      [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr> sum) {
        return Values{reductionStep(kind, sum[0], made[0])};
      },
      together)[0];
  return block.reduce(kind, mine);
}

std::string RowBlock::nameOf(Value value) {
  auto yield = cast<YieldOp>(kernel.getBody().front().back());
  for (auto [yielded, name] :
       llvm::zip(yield.getValues(), outputBuffers(kernel)))
    if (yielded == value)
      return name;
  llvm_unreachable("what is listed is always read by another kernel");
}

Buffer RowBlock::storeBuffer(StoreOp store) const {
  Expr row = k.arg("max_tokens");
  Expr heads = k.arg("kv_heads") * members(store);
  return k.buffer(scratchName(store.getBufferAttr()), {heads * row, row});
}

Expr RowBlock::loadStored(StoreOp store, const Point &point) const {
  Axis heads = headsOf(store.getType()) == Axis::QueryHeads ? Axis::QueryHeads
                                                            : Axis::KVHeads;
  return k.load(storeBuffer(store),
                {s.sequence, headIndex(k, heads, point), point.token});
}

void RowBlock::runStore(StoreOp store) {
  Buffer memory = storeBuffer(store);
  forTokens(
      [&](Expr token) {
        PointEval eval = at(token);
        Values values;
        for (int64_t j = 0; j < members(store); ++j)
          values.push_back(eval(store.getValue(), j));
        return values;
      },
      [&](Expr token, ArrayRef<Expr> values) {
        for (auto [j, value] : llvm::enumerate(values)) {
          Expr row = head * members(store) + int64_t(j);
          k.store(value, memory, {s.sequence, row, token});
        }
      });
  k.barrier(); // the block may read all of it
}

void RowBlock::storeOutputs() {
  auto yield = cast<YieldOp>(kernel.getBody().front().back());
  for (auto [value, name] :
       llvm::zip(yield.getValues(), outputBuffers(kernel))) {
    if (needsOf(value.getDefiningOp()).writesResults || stored.contains(value))
      continue;
    Axis heads = headsOf(value.getType());
    Buffer memory = scratchBuffer(k, name, value.getType());
    bool perToken = axesOf(value.getType()).size() > 1;
    // One row for all heads: the first head's blocks write it, or every head's what
    // it has tokens of.
    bool byPosition = k.shape.hasRows() && perToken;
    Expr mine =
        heads == Axis::OneHead && !byPosition ? head == 0 : k.boolean(true);
    auto make = [&, value = value](Expr token) {
      PointEval eval = at(token);
      Values results;
      for (int64_t j = 0; j < members(value); ++j)
        results.push_back(eval(value, j));
      return results;
    };
    auto storeAt = [&](ArrayRef<Expr> tail, ArrayRef<Expr> results) {
      for (auto [j, result] : llvm::enumerate(results)) {
        Point p{head, int(j), {}, {}};
        SmallVector<Expr> at{s.sequence, headIndex(k, heads, p)};
        at.append(tail.begin(), tail.end());
        k.when(mine, [&, result = result] { k.store(result, memory, at); });
      }
    };
    if (!perToken)
      k.when((k.thread() == 0) & (span == 0),
             [&] { storeAt({}, make(k.index(0))); });
    else
      forTokens(make, [&](Expr token, ArrayRef<Expr> results) {
        storeAt({tokenIndex(k, s, heads, Point{head, -1, {}, token})}, results);
      });
  }
}
