//===- Rows.cpp - what needs a whole row of tokens ------------------------===//
//
// grid (1, Hkv, batch), 512 threads: one block per KV head and sequence. Walks
// the body in order; staged values, statistics and top-k are loops of the whole
// block with barriers between them, everything else is pulled in at the points
// where it is needed. At the end the kept tokens are listed in ascending order:
// two passes over the mask and a prefix sum, no sort.
//
// A sequence with T <= B keeps everything: nothing is computed.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/RadixSelect.h"

using namespace mlir;
using namespace kvc;

namespace {

constexpr int64_t threads = 512;
/// Bits of the status word, as kvc/kvc.h has them.
constexpr int64_t statusNaN = 1, statusCapacity = 2;

class RowsBuilder {
public:
  RowsBuilder(KernelOp kernel, const KernelSite &site)
      : kernel(kernel), site(site),
        yield(cast<YieldOp>(kernel.getBody().front().back())),
        k(site.builder, site.name, site.shape, launch(), site.scratch),
        block(k, threads), radix(k, block) {}

  void build() {
    if (makesChannels())
      channelRuns = k.shared(k.b.getF32Type(), threads);
    head = k.block(gpu::Dimension::y);
    s = openSequence(k, k.block(gpu::Dimension::z), yield.getProtectLast());
    Expr keepAll = s.length <= s.budget;
    k.choose(
        keepAll,
        [&] {
          listAll();
          return KernelBuilder::Values{};
        },
        [&] {
          for (Operation &op : kernel.getBody().front())
            run(&op);
          storeOutputs();
          return KernelBuilder::Values{};
        });
  }

private:
  KernelOp kernel;
  const KernelSite &site;
  YieldOp yield;
  KernelBuilder k;
  ThreadBlock block;
  RadixSelect radix;
  Expr head;
  SequenceScalars s;
  Buffer channelRuns;
  /// Statistics over tokens, per op and member.
  llvm::DenseMap<std::pair<Operation *, int>, Expr> statistics;
  llvm::DenseMap<Operation *, Selection> selections;

  bool makesChannels() {
    return llvm::any_of(kernel.getBody().getOps<ReduceOp>(), [](ReduceOp op) {
      return axesOf(op.getType()).back() == Axis::Channel;
    });
  }

  bool listsMembers() {
    return !kernel.getBody().getOps<ListMembersOp>().empty();
  }

  bool lists() { return !kernel.getBody().getOps<ListKeptOp>().empty(); }

  /// The policy reads what earlier layers kept, so every layer counts.
  bool carriesState() {
    WalkResult result = kernel->getParentOfType<PolicyOp>().walk(
        [](KeptLayersOp) { return WalkResult::interrupt(); });
    return result.wasInterrupted();
  }

  LaunchSpec launch() {
    LaunchSpec spec;
    spec.args = {"lengths", "budgets", "kv_heads", "max_tokens", "status"};
    if (lists())
      for (const char *arg : {"indices", "counts", "past", "index_capacity"})
        spec.args.push_back(arg);
    if (listsMembers())
      for (const char *arg : {"member_rows", "member_positions",
                              "member_counts", "member_capacity"})
        spec.args.push_back(arg);
    if (lists() && carriesState())
      for (const char *arg : {"layer", "layers", "state", "state_rows"})
        spec.args.push_back(arg);
    addBodyArgs(kernel, spec.args);
    for (const std::string &input : site.inputs)
      addArg(spec.args, input);
    for (const std::string &output : outputBuffers(kernel))
      addArg(spec.args, output);
    kernel.getBody().walk([&](Operation *op) {
      if (auto buffer = op->getAttrOfType<BufferAttr>("buffer"))
        addArg(spec.args, scratchName(buffer));
    });
    spec.blockSize = threads;
    spec.grid = {"1", "kv_heads", "batch"};
    return spec;
  }

  int64_t members(Value value) {
    return headsOf(value.getType()) == Axis::QueryHeads ? k.shape.group : 1;
  }

  /// Staged values belong to the block, also where they have one head.
  Buffer stageBuffer(StageOp stage) {
    Expr row = k.arg("max_tokens");
    Expr heads = k.arg("kv_heads") * members(stage);
    return k.buffer(scratchName(cast<BufferAttr>(stage->getAttr("buffer"))),
                    {heads * row, row});
  }

  std::optional<Expr> leaf(Value value, const Point &p) {
    Axis heads = headsOf(value.getType());
    if (std::optional<Expr> input = readInput(k, s, site, value, p))
      return input;
    Operation *op = value.getDefiningOp();
    if (auto stage = dyn_cast<StageOp>(op)) {
      Axis own = heads == Axis::QueryHeads ? heads : Axis::KVHeads;
      return k.load(stageBuffer(stage),
                    {s.sequence, headIndex(k, own, p), p.token});
    }
    if (auto it = statistics.find({op, p.member}); it != statistics.end())
      return it->second;
    if (auto topk = dyn_cast<TopkOp>(op)) {
      PointEval eval = evalAt(p.token);
      Expr key = orderedKey(k, eval(topk.getScore()));
      return selections.lookup(op).contains(key, p.token);
    }
    return std::nullopt;
  }

  PointEval evalAt(Expr token) {
    return PointEval(
        k, s, [this](Value v, const Point &p) { return leaf(v, p); },
        Point{head, -1, {}, token});
  }

  void forTokens(llvm::function_ref<void(Expr)> body) {
    k.loop(k.thread(), s.past, k.index(threads), body);
  }

  void run(Operation *op) {
    k.b.setLoc(op->getLoc());
    if (auto stage = dyn_cast<StageOp>(op))
      return runStage(stage);
    if (auto topk = dyn_cast<TopkOp>(op))
      return runTopk(topk);
    if (auto list = dyn_cast<ListKeptOp>(op))
      return listKept(list);
    if (auto list = dyn_cast<ListOp>(op))
      return listMarked(list);
    if (auto members = dyn_cast<ListMembersOp>(op))
      return listMembers(members);
    if (auto select = dyn_cast<SelectHeadsOp>(op))
      return selectHead(select);
    if (auto count = dyn_cast<CountMassOp>(op))
      return countMass(count);
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && axesOf(reduce.getType()).back() == Axis::Channel)
      return runChannels(reduce);
    if (reduce && reduce.getAxis() == ReduceAxis::Tokens)
      for (int64_t j = 0; j < members(reduce.getValue()); ++j)
        runStatistic(reduce, j);
  }

  void runStage(StageOp stage) {
    Buffer memory = stageBuffer(stage);
    forTokens([&](Expr token) {
      PointEval eval = evalAt(token);
      for (int64_t j = 0; j < members(stage); ++j) {
        Expr value = eval(stage.getValue(), j);
        Expr row = head * members(stage) + j;
        k.store(value, memory, {s.sequence, row, token});
      }
    });
    k.barrier(); // the block may read all of it
  }

  /// Sum over the row of `value(token)`, reduced in a fixed tree.
  Expr overTokens(ReduceKind kind, llvm::function_ref<Expr(Expr)> value) {
    Expr mine =
        k.loop(k.thread(), s.past, k.index(threads), {reductionStart(k, kind)},
               [&](Expr token, ArrayRef<Expr> carried) {
                 return KernelBuilder::Values{
                     reductionStep(kind, carried[0], value(token))};
               })[0];
    return block.reduce(kind, mine);
  }

  void runStatistic(ReduceOp reduce, int64_t j) {
    int member =
        headsOf(reduce.getValue().getType()) == Axis::QueryHeads ? j : -1;
    auto value = [&](Expr token) {
      return evalAt(token)(reduce.getValue(), member);
    };
    ReduceKind kind = reduce.getKind();
    Expr count = s.past.toFloat();
    Expr result =
        overTokens(kind == ReduceKind::Std ? ReduceKind::Sum : kind, value);
    if (kind == ReduceKind::Mean || kind == ReduceKind::Std)
      result = result / count;
    if (kind == ReduceKind::Std) {
      Expr mean = result;
      Expr squares = overTokens(ReduceKind::Sum, [&](Expr token) {
        Expr distance = value(token) - mean;
        return distance * distance;
      });
      result = k.sqrt(squares / count);
    }
    statistics[{reduce, member}] = result;
  }

  /// A vector of channels, each the reduction over tokens: thread = channel, or
  /// several runs of tokens per channel, whose results are combined in order.
  void runChannels(ReduceOp reduce) {
    int64_t d = k.shape.headDim, runs = std::max<int64_t>(1, threads / d);
    Buffer result = outputOf(reduce.getResult());
    Expr channel = k.thread() % d, runIndex = k.thread() / d;
    Expr safe = runIndex.min(k.index(runs - 1)); // threads that are left over
    auto over = [&](ReduceKind kind, llvm::function_ref<Expr(Expr)> value) {
      Expr mine = k.loop(
          safe, s.past, k.index(runs), {reductionStart(k, kind)},
          [&](Expr token, ArrayRef<Expr> carried) {
            Point point{head, -1, {}, token, channel};
            PointEval eval(
                k, s, [this](Value v, const Point &p) { return leaf(v, p); },
                point);
            return KernelBuilder::Values{reductionStep(
                kind, carried[0], value(eval(reduce.getValue())))};
          })[0];
      k.barrier(); // earlier results have been read
      k.store(mine, channelRuns, {k.thread()});
      k.barrier();
      return k.loop(
          k.index(0), k.index(runs), k.index(1), {reductionStart(k, kind)},
          [&](Expr run, ArrayRef<Expr> carried) {
            Expr part = k.load(channelRuns, {run * d + channel});
            return KernelBuilder::Values{reductionStep(kind, carried[0], part)};
          })[0];
    };
    ReduceKind kind = reduce.getKind();
    auto plain = [](Expr x) { return x; };
    Expr count = s.past.toFloat();
    Expr total = over(kind == ReduceKind::Std ? ReduceKind::Sum : kind, plain);
    if (kind == ReduceKind::Mean || kind == ReduceKind::Std)
      total = total / count;
    if (kind == ReduceKind::Std) {
      Expr mean = total;
      total = k.sqrt(over(ReduceKind::Sum,
                          [&](Expr x) { return (x - mean) * (x - mean); }) /
                     count);
    }
    k.when(k.thread() < d, [&] {
      k.store(total, result, {s.sequence, head, channel});
    });
  }

  /// The smallest number of best scores that leave at most `all_but`: bit by
  /// bit the largest key below which no more than that lies, then as many of
  /// that key as still fit.
  void countMass(CountMassOp op) {
    auto score = [&](Expr token) { return evalAt(token)(op.getScore()); };
    Expr least = evalScalar(k, s, op.getAllBut());
    auto massBelow = [&](Expr key) {
      return overTokens(ReduceKind::Sum, [&](Expr token) {
        Expr x = score(token);
        Expr counts =
            key.above(orderedKey(k, x)) & (x.isNaN() == k.boolean(false));
        return counts.select(x, k.f32(0));
      });
    };
    Expr key =
        k.loop(k.index(0), k.index(32), k.index(1), {k.i32(0)},
               [&](Expr i, ArrayRef<Expr> carried) {
                 Expr bit = k.i32(1) << (k.index(31) - i).toI32();
                 Expr higher = carried[0] | bit;
                 Expr fits = massBelow(higher) <= least;
                 return KernelBuilder::Values{fits.select(higher, carried[0])};
               })[0];
    Expr left = least - massBelow(key);
    // How many scores have the key or more, how many just the key, and its
    // value.
    auto counted = [&](llvm::function_ref<Expr(Expr)> holds) {
      return overTokens(ReduceKind::Sum, [&](Expr token) {
        return holds(orderedKey(k, score(token))).select(k.f32(1), k.f32(0));
      });
    };
    Expr above = counted([&](Expr own) { return own.above(key); });
    Expr equal = counted([&](Expr own) { return own == key; });
    Expr value = overTokens(ReduceKind::Max, [&](Expr token) {
      Expr x = score(token);
      return (orderedKey(k, x) == key)
          .select(x, k.f32(-std::numeric_limits<double>::infinity()));
    });
    Expr drop = (value > k.f32(0)).select(left / value, equal);
    drop = k.expr(math::FloorOp::create(k.b, drop.max(k.f32(0)).min(equal)));
    Expr count = above + equal - drop;
    statistics[{op, -1}] =
        k.expr(arith::FPToSIOp::create(k.b, k.b.getI32Type(), count));
  }

  /// Whether the block's head is one of the selected: how many come before it?
  void selectHead(SelectHeadsOp op) {
    auto value = [&](Expr kvHead) {
      PointEval eval(
          k, s, [this](Value v, const Point &p) { return leaf(v, p); },
          Point{kvHead, -1, {}, k.index(0)});
      return eval(op.getValue());
    };
    Expr mine = value(head), heads = k.arg("kv_heads");
    Expr count = evalScalar(k, s, op.getCount());
    Expr before =
        k.loop(k.index(0), heads, k.index(1), {k.index(0)},
               [&](Expr other, ArrayRef<Expr> carried) {
                 Expr theirs = value(other);
                 Expr better =
                     op.getEnd() == End::Lowest ? theirs < mine : theirs > mine;
                 Expr comes = better | ((theirs == mine) & (other < head));
                 return KernelBuilder::Values{
                     comes.select(carried[0] + 1, carried[0])};
               })[0];
    Expr number = mine.isNaN() == k.boolean(false);
    statistics[{op, -1}] = (count >= heads) | (number & (before < count));
  }

  void runTopk(TopkOp topk) {
    auto score = [&](Expr token) { return evalAt(token)(topk.getScore()); };
    Buffer status = k.buffer("status", {});
    forTokens([&](Expr token) {
      k.when(score(token).isNaN(),
             [&] { k.atomicOr(k.i32(statusNaN), status, {k.index(0)}); });
    });
    Expr wanted = evalAt(k.index(0))(topk.getCount()).toIndex();
    selections[topk] = radix.select(s.past, wanted, [&](Expr token) {
      return orderedKey(k, score(token));
    });
  }

  /// Calls `write(row, token)` for each of the first `count` tokens that
  /// `isMember` holds for, rows ascending; returns how many there are.
  Expr listWhere(Expr count, llvm::function_ref<Expr(Expr)> isMember,
                 llvm::function_ref<void(Expr, Expr)> write) {
    auto isListed = [&](Expr token, Expr exists) {
      return exists & isMember(token.min(count - 1));
    };
    Expr mine =
        walkSegment(k, threads, count, {k.i32(0)},
                    [&](Expr token, Expr exists, ArrayRef<Expr> sum) {
                      Expr bits = k.ballot(isListed(token, exists));
                      return KernelBuilder::Values{sum[0] + k.popcount(bits)};
                    })[0];
    auto [before, total] = block.warpSums(mine);
    walkSegment(k, threads, count, {before},
                [&](Expr token, Expr exists, ArrayRef<Expr> sum) {
                  Expr listed = isListed(token, exists);
                  Expr bits = k.ballot(listed);
                  Expr row = (sum[0] + bitsBelow(k, bits)).toIndex();
                  k.when(listed, [&] { write(row, token); });
                  return KernelBuilder::Values{sum[0] + k.popcount(bits)};
                });
    return total.toIndex();
  }

  /// Writes the selected tokens of the past, then the window.
  void listKept(ListKeptOp list) {
    Expr first = listWhere(
        s.past, [&](Expr token) { return evalAt(token)(list.getMask()); },
        [&](Expr row, Expr token) { writeIndex(row, token); });
    k.loop(k.thread(), s.window, k.index(threads),
           [&](Expr i) { writeIndex(first + i, s.past + i); });
    writeCount(first + s.window);
  }

  /// Writes the marked tokens to the kernel's outputs.
  void listMarked(ListOp op) {
    Buffer indices = outputOf(op.getIndices()),
           counts = outputOf(op.getCounts());
    Expr count = listWhere(
        s.past, [&](Expr token) { return evalAt(token)(op.getMask()); },
        [&](Expr row, Expr token) {
          k.store(token.toI32(), indices, {s.sequence, head, row});
        });
    k.when(k.thread() == 0, [&] {
      k.store(count.toI32(), counts, {s.sequence, head});
    });
  }

  /// The buffer of a value that the kernel yields.
  Buffer outputOf(Value value) {
    for (auto [yielded, name] :
         llvm::zip(yield.getValues(), outputBuffers(kernel)))
      if (yielded == value)
        return scratchBuffer(k, name, value.getType());
    llvm_unreachable("a list is always read by another kernel");
  }

  /// Where each kept token's row is noted, for its members.
  Buffer rankBuffer() {
    ListMembersOp op = *kernel.getBody().getOps<ListMembersOp>().begin();
    return scratchBuffer(
        k, scratchName(op->getAttrOfType<BufferAttr>("buffer")), op.getType());
  }

  /// Writes the table of what the kept rows represent: kept tokens, and tokens
  /// that have a kept one as their destination.
  void listMembers(ListMembersOp op) {
    Buffer rank = rankBuffer();
    k.barrier(); // every kept token's row is known
    auto destination = [&](Expr token) {
      return evalAt(token)(op.getDestination()).toIndex();
    };
    auto isKept = [&](Expr token) {
      Expr past = token.min((s.past - 1).max(k.index(0)));
      return (token >= s.past) | evalAt(past)(op.getMask());
    };
    /// The kept token that represents a token, below 0 for none.
    auto owner = [&](Expr token) {
      Expr past = token.min((s.past - 1).max(k.index(0)));
      Expr to = destination(past);
      Expr valid = (to >= k.index(0)) & (to < s.past);
      Expr safe = valid.select(to, k.index(0));
      Expr merged = valid & evalAt(safe)(op.getMask());
      return isKept(token).select(token, merged.select(to, k.index(-1)));
    };
    Expr count = listWhere(
        s.length, [&](Expr token) { return owner(token) >= k.index(0); },
        [&](Expr entry, Expr token) {
          Expr to = owner(token);
          Expr row = k.load(rank, {s.sequence, head, to});
          writeMember(op, entry, token, row, to);
        });
    writeMemberCount(count);
  }

  void writeMember(ListMembersOp op, Expr entry, Expr token, Expr row,
                   Expr to) {
    Expr capacity = k.arg("member_capacity");
    SmallVector<Expr> strides{k.arg("kv_heads") * capacity, capacity};
    SmallVector<Expr> at{s.sequence, head, entry};
    k.when(entry < capacity, [&] {
      k.store(row, k.buffer("member_rows", strides), at);
      Expr position = op.getSharePositions() ? to : token;
      k.store(position.toI32(), k.buffer("member_positions", strides), at);
      k.store(token.toI32(), outputOf(op.getTokens()), at);
    });
  }

  void writeMemberCount(Expr count) {
    Expr capacity = k.arg("member_capacity");
    k.when(k.thread() == 0, [&] {
      k.store(count.min(capacity).toI32(),
              k.buffer("member_counts", {k.arg("kv_heads")}),
              {s.sequence, head});
      k.when(count > capacity, [&] {
        k.atomicOr(k.i32(statusCapacity), k.buffer("status", {}), {k.index(0)});
      });
    });
  }

  void listAll() {
    if (!lists())
      return;
    k.loop(k.thread(), s.length, k.index(threads),
           [&](Expr token) { writeIndex(token, token); });
    writeCount(s.length);
    for (auto op : kernel.getBody().getOps<ListMembersOp>()) {
      k.loop(k.thread(), s.length, k.index(threads), [&](Expr token) {
        writeMember(op, token, token, token.toI32(), token);
      });
      writeMemberCount(s.length);
    }
  }

  void writeIndex(Expr row, Expr token) {
    Expr capacity = k.arg("index_capacity");
    Buffer indices =
        k.buffer("indices", {k.arg("kv_heads") * capacity, capacity});
    k.when(row < capacity, [&] {
      k.store(token.toI32(), indices, {s.sequence, head, row});
    });
    if (carriesState())
      countKept(k, s, token);
    if (listsMembers())
      k.store(row.toI32(), rankBuffer(), {s.sequence, head, token});
  }

  void writeCount(Expr count) {
    k.when((head == 0) & (k.thread() == 0), [&] {
      bool ranks = false;
      kernel->getParentOfType<PolicyOp>().walk([&](TopkOp) { ranks = true; });
      Expr ranked = s.length.above(s.budget) & s.budget.above(s.window) &
                    k.boolean(ranks);
      Expr past = ranked.select(s.past, k.index(0));
      k.store(past.toI32(), k.buffer("past", {}), {s.sequence});
    });
    Buffer counts = k.buffer("counts", {k.arg("kv_heads")});
    k.when(k.thread() == 0, [&] {
      Expr capacity = k.arg("index_capacity");
      k.store(count.min(capacity).toI32(), counts, {s.sequence, head});
      k.when(count > capacity, [&] {
        k.atomicOr(k.i32(statusCapacity), k.buffer("status", {}), {k.index(0)});
      });
    });
  }

  /// What later kernels read.
  void storeOutputs() {
    for (auto [value, name] :
         llvm::zip(yield.getValues(), outputBuffers(kernel))) {
      if (isa_and_nonnull<ListOp, ListMembersOp>(value.getDefiningOp()) ||
          axesOf(value.getType()).back() == Axis::Channel)
        continue; // these have been written
      Axis heads = headsOf(value.getType());
      Buffer memory = scratchBuffer(k, name, value.getType());
      // One row for all heads: the first head's block writes it.
      Expr mine = heads == Axis::OneHead ? head == 0 : k.boolean(true);
      auto storeAt = [&](Expr token, ArrayRef<Expr> tail) {
        PointEval eval = evalAt(token);
        for (int64_t j = 0; j < members(value); ++j) {
          Point p{head, int(j), {}, token};
          SmallVector<Expr> at{s.sequence, headIndex(k, heads, p)};
          at.append(tail.begin(), tail.end());
          Expr result = eval(value, j);
          k.when(mine, [&] { k.store(result, memory, at); });
        }
      };
      if (axesOf(value.getType()).size() == 1)
        k.when(k.thread() == 0, [&] { storeAt(k.index(0), {}); });
      else
        forTokens([&](Expr token) { storeAt(token, {token}); });
    }
  }
};

} // namespace

void kvc::buildRows(KernelOp kernel, const KernelSite &site) {
  RowsBuilder(kernel, site).build();
}
