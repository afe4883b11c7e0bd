//===- FormKernels.cpp - kvc-form-kernels ---------------------------------===//
//
// The ops of a stage (Stages.h) are a kernel. No policy is recognised as a
// whole.
//
//===----------------------------------------------------------------------===//

#include "passes/Clearing.h"
#include "passes/Deviations.h"
#include "passes/ExpSums.h"
#include "passes/Passes.h"
#include "passes/Stages.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <array>

namespace kvc {
#define GEN_PASS_DEF_FORMKERNELS
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// "4*q_heads*tokens": the bytes of a tensor, as a remark says them.
std::string bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t bytes = std::max(1u, tensor.getElementTypeBitWidth() / 8);
  std::string text;
  for (auto [axis, extent] : llvm::zip(axesOf(type), tensor.getShape())) {
    if (!ShapedType::isDynamic(extent))
      bytes *= extent;
    else if (axis == Axis::QueryHeads)
      text += "*q_heads";
    else if (axis == Axis::KVHeads)
      text += "*kv_heads";
    else
      text += "*tokens";
  }
  return std::to_string(bytes) + text;
}

class KernelFormer {
public:
  explicit KernelFormer(PolicyOp policy)
      : policy(policy), keep(cast<KeepOp>(policy.getBody().front().back())),
        builder(policy->getContext()) {}

  LogicalResult run() {
    for (Operation &op : llvm::make_early_inc_range(policy.getBody().front())) {
      OpBuilder before(&op);
      if (auto known = dyn_cast<NeedsOpInterface>(op))
        known.prepare(before);
    }
    joinExpSums(policy);
    if (failed(stages.assign(policy)))
      return failure();
    if (splitDeviations(policy, stages)) {
      stages = Stages();
      if (failed(stages.assign(policy)))
        return failure();
    }
    old.takeBody(policy.getBody());
    policy.getBody().emplaceBlock();
    builder.setInsertionPointToStart(&policy.getBody().front());
    makeGram();
    makeMemberKeys();
    makeStatistics();
    for (int stage = Stages::ofMembers; stage <= stages.of(keep); ++stage)
      makeKernel(stage);
    DoneOp::create(builder, policy.getLoc());
    return success();
  }

private:
  PolicyOp policy;
  KeepOp keep;
  OpBuilder builder;
  Region old;
  Stages stages;
  /// How many kernels of each kind there are so far.
  int numbers[Stages::kinds] = {};
  /// How many parts kernels there are so far.
  int parts = 0;
  /// Old value -> the kernel result that holds it.
  IRMapping stored;
  /// What kernels in front of all others make; empty where nobody needs it.
  static constexpr int LogSumExp = int(Prepared::LogSumExp);
  static constexpr int Gram = int(Prepared::Gram);
  ValueRange made[2];
  /// The keys of members, where anybody attends to these.
  Value memberKeys;

  MLIRContext &getContext() { return *policy.getContext(); }

  /// The keys of members, in front of everything.
  void makeMemberKeys() {
    for (auto [op, stage] : stages.all()) {
      if (stage != Stages::ofMembers || memberKeys)
        continue;
      Location loc = op->getLoc();
      Type type = withAxes(RankedTensorType::get({1}, builder.getF32Type()),
                           {Axis::KVHeads, Axis::Member, Axis::Channel}, 0);
      memberKeys =
          openKernel(loc, KernelKind::Keys, "keys", {}, {type},
                     [&](ValueRange) -> SmallVector<Value> {
                       return {MemberKeysOp::create(builder, loc, type)};
                     })
              .getResult(0);
    }
  }

  /// Statistics of all queries or the new ones, or of the largest window with a
  /// combine kernel.
  void makeStatistics() {
    Operation *user = nullptr;
    int64_t queries = 0;
    bool all = false, onlyNew = false, everyRow = false, ofMembers = false;
    for (auto [op, stage] : stages.all()) {
      bool ofEveryRow = stage < 0;
      forComputed(op, [&](Operation *read) {
        Needs needs = needsOf(read);
        all |= ShapedType::isDynamic(needs.queries);
        queries = std::max(queries, needs.queries);
        if (auto attention = dyn_cast<AttentionOp>(read))
          onlyNew |= attention.readsNew();
        if (needs.prepared != Prepared::LogSumExp)
          return;
        user = read;
        everyRow |= ofEveryRow;
        ofMembers |= stage == Stages::ofMembers;
      });
    }
    if (!user)
      return;
    Location loc = user->getLoc();
    auto f32 = builder.getF32Type();
    auto bare = RankedTensorType::get({1, 1}, f32);
    if (all) {
      auto type = withAxes(bare, {Axis::QueryHeads, Axis::Query}, 0);
      made[LogSumExp] =
          openKernel(
              loc, KernelKind::Statistics, "statistics", {}, {type},
              [&](ValueRange) -> SmallVector<Value> {
                Value last;
                if (onlyNew)
                  last = newQueries(loc, queries);
                return {RowLogSumExpOp::create(builder, loc, type, last)};
              },
              {}, everyRow, ofMembers)
              .getOutputs();
      return;
    }
    auto partialType =
        withAxes(bare, {Axis::QueryHeads, Axis::Query, Axis::Split, Axis::Pair},
                 queries);
    auto lseType = withAxes(bare, {Axis::QueryHeads, Axis::Query}, queries);
    Value partial =
        openKernel(
            loc, KernelKind::Statistics, "statistics", {}, {partialType},
            [&](ValueRange) -> SmallVector<Value> {
              Value last =
                  arith::ConstantIndexOp::create(builder, loc, queries);
              return {RowStatisticsOp::create(builder, loc, partialType, last)};
            },
            {}, everyRow, ofMembers)
            .getResult(0);
    made[LogSumExp] =
        openKernel(
            loc, KernelKind::Combine, "combine", {partial}, {lseType},
            [&](ValueRange args) -> SmallVector<Value> {
              return {
                  CombineStatisticsOp::create(builder, loc, lseType, args[0])};
            },
            {}, everyRow, ofMembers)
            .getOutputs();
  }

  /// The new queries, and those of a window of `least` queries beside them.
  Value newQueries(Location loc, int64_t least) {
    Value last = NewQueriesOp::create(builder, loc);
    if (least)
      last = arith::MaxUIOp::create(
          builder, loc, last,
          arith::ConstantIndexOp::create(builder, loc, least));
    return last;
  }

  /// A gram kernel, where norms are bounded. It reads weights alone, and so is in front
  /// of what reads a layer's cache.
  void makeGram() {
    Operation *user = nullptr;
    for (auto [op, stage] : stages.all())
      if (needsOf(op).prepared == Prepared::Gram)
        user = op;
    if (!user)
      return;
    auto f32 = RankedTensorType::get({1}, builder.getF32Type());
    Type matrix =
        withAxes(f32, {Axis::QueryHeads, Axis::Channel, Axis::Channel}, 0);
    Type sums = withAxes(f32, {Axis::QueryHeads, Axis::Channel, Axis::Pair}, 0);
    made[Gram] =
        openKernel(user->getLoc(), KernelKind::Gram, "gram", {}, {matrix, sums},
                   [&](ValueRange) -> SmallVector<Value> {
                     auto op =
                         GramOp::create(builder, user->getLoc(), matrix, sums);
                     return {op.getMatrix(), op.getSums()};
                   })
            .getOutputs();
  }

  /// An op, and the values behind it that are never stored.
  static void forComputed(Operation *op,
                          llvm::function_ref<void(Operation *)> body) {
    Stages::forVirtual(op, body);
    body(op);
  }

  /// Creates a kernel; `fill` builds its body and returns what it yields.
  /// `uses` says what of `made` it is given; `everyRow`, that rows carry what it makes.
  KernelOp openKernel(Location loc, KernelKind kind, StringRef name,
                      ValueRange inputs, TypeRange outputs,
                      llvm::function_ref<SmallVector<Value>(ValueRange)> fill,
                      std::array<bool, 2> uses = {}, bool everyRow = false,
                      bool ofMembers = false) {
    auto kernel =
        KernelOp::create(builder, loc, outputs, kind, everyRow, ofMembers, name,
                         inputs, uses[Gram] ? made[Gram] : ValueRange(),
                         uses[LogSumExp] ? made[LogSumExp].front() : Value(),
                         ofMembers ? memberKeys : Value(),
                         /*buffers=*/ArrayAttr());
    OpBuilder::InsertionGuard guard(builder);
    Block *block = builder.createBlock(
        &kernel.getBody(), {}, kernel->getOperandTypes(),
        SmallVector<Location>(kernel->getNumOperands(), loc));
    madeArgs[Gram] = kernel.getGramArgs();
    if (uses[LogSumExp])
      madeArgs[LogSumExp] = block->getArguments().slice(
          inputs.size() + kernel.getGram().size(), 1);
    SmallVector<Value> results =
        fill(block->getArguments().take_front(inputs.size()));
    Value protect;
    bool knowsPast = kind != KernelKind::Combine && kind != KernelKind::Gram &&
                     kind != KernelKind::Keys && !ofMembers &&
                     (kind != KernelKind::Compact || keep.getWeight());
    if (keep.getProtectLast() && knowsPast)
      protect = cloneCheap(keep.getProtectLast());
    YieldOp::create(builder, loc, results, protect);
    bodyMapping.clear();
    inMemory.clear();
    for (ValueRange &args : madeArgs)
      args = {};
    return kernel;
  }
  /// Old value -> value in the kernel that is being filled.
  IRMapping bodyMapping;
  /// Value of that kernel -> the same, written to scratch.
  llvm::DenseMap<Value, Value> inMemory;
  /// Arguments of that kernel that hold what is `made`.
  ValueRange madeArgs[2];

  /// `value` in the current kernel, cloning what is cheap.
  Value cloneCheap(Value value) {
    if (Value known = bodyMapping.lookupOrNull(value))
      return known;
    return clone(value.getDefiningOp())
        ->getResult(cast<OpResult>(value).getResultNumber());
  }

  /// Clones an op, and what is cheap of its operands, into the current kernel.
  Operation *clone(Operation *op) {
    for (Value operand : op->getOperands())
      cloneCheap(operand);
    Operation *copy = builder.clone(*op, bodyMapping);
    if (std::optional<Prepared> prepared = needsOf(copy).prepared)
      cast<NeedsOpInterface>(copy).getPreparedMutable().assign(
          madeArgs[int(*prepared)]);
    return copy;
  }

  /// True for a reduction over tokens that can be done split by split, before
  /// the stage that has the result: vectors, none of which that stage makes.
  bool hasParts(Operation *op, int stage) {
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!reduce || reduce.getAxis() != ReduceAxis::Tokens ||
        !folds(reduce.getKind()) ||
        axesOf(reduce.getType()) != AxisList{Axis::KVHeads, Axis::Channel})
      return false;
    bool ready = true;
    Stages::forSources(op, [&](Value operand, Reach) {
      Operation *def = operand.getDefiningOp();
      ready &= stages.isCheap(def) || stages.of(def) < stage;
    });
    return ready;
  }

  /// The parts of a reduction, by a kernel of their own. Until the reduction
  /// has its result, they are what is stored of it.
  void makeParts(ReduceOp reduce, int stage) {
    llvm::SetVector<Value> inputs;
    collectInputs(reduce, stage, inputs);
    SmallVector<Value> operands;
    for (Value input : inputs)
      operands.push_back(stored.lookup(input));
    Type type = withAxes(RankedTensorType::get({1}, builder.getF32Type()),
                         {Axis::KVHeads, Axis::Split, Axis::Channel}, 0);
    std::string name = "parts" + std::to_string(parts++);
    KernelOp kernel = openKernel(
        reduce.getLoc(), KernelKind::Parts, name, operands, {type},
        [&](ValueRange args) -> SmallVector<Value> {
          for (auto [input, arg] : llvm::zip(inputs, args))
            bodyMapping.map(input, arg);
          Value value = cloneCheap(reduce.getValue());
          return {ReducePartOp::create(builder, reduce.getLoc(), type,
                                       reduce.getKind(), value)};
        });
    stored.map(reduce.getResult(), kernel.getResult(0));
  }

  void makeKernel(int stage) {
    SmallVector<Operation *> ops;
    for (auto [op, at] : stages.all())
      if (at == stage)
        ops.push_back(op);
    if (ops.empty())
      return;

    for (Operation *op : ops)
      if (hasParts(op, stage))
        makeParts(cast<ReduceOp>(op), stage);

    // What the kernel reads and what later kernels read of it.
    llvm::SetVector<Value> inputs, outputs;
    std::array<bool, 2> uses = {};
    for (Operation *op : ops) {
      forComputed(op, [&](Operation *read) {
        if (std::optional<Prepared> prepared = needsOf(read).prepared)
          uses[int(*prepared)] = true;
      });
      if (hasParts(op, stage))
        inputs.insert(op->getResult(0));
      else
        collectInputs(op, stage, inputs);
      for (Value result : op->getResults()) {
        Stages::forUsers(result, [&](Operation *user) {
          if (stages.of(user) > stage)
            outputs.insert(result);
        });
        // The kernel behind the last stage reads it.
        if (result == keep.getWeight() ||
            llvm::is_contained(keep.getCarried(), result))
          outputs.insert(result);
      }
    }
    SmallVector<Value> operands;
    for (Value input : inputs)
      operands.push_back(stored.lookup(input));
    if (llvm::any_of(outputs, isAddedTo))
      ensureCleared(ops.front()->getLoc());

    bool last = ops.back() == keep;
    SmallVector<Type> types(ValueRange(outputs.getArrayRef()).getTypes());
    auto i32 = RankedTensorType::get({1}, builder.getI32Type());
    Type list = withAxes(i32, {Axis::KVHeads, Axis::Kept}, 0);
    Type counts = withAxes(i32, {Axis::KVHeads}, 0);
    if (last) {
      // The policy's outputs come last; the members' tokens are scratch.
      if (keep.getDestination())
        types.push_back(list);
      types.append({list, counts});
    }
    const KernelKind kinds[] = {KernelKind::Sequence, KernelKind::Columns,
                                KernelKind::Segments, KernelKind::Rows,
                                KernelKind::Spans,    KernelKind::Nearest,
                                KernelKind::Norms};
    KernelKind kind = kinds[Stages::kindOf(stage)];
    bool everyRow = stage < 0, ofMembers = stage == Stages::ofMembers;
    std::string name = ofMembers  ? "members"
                       : everyRow ? "carried"
                                  : nameOf(kind, Stages::kindOf(stage));
    ListKeptOp kept;
    ListMembersOp members;
    auto fill = [&](ValueRange args) {
      for (auto [input, arg] : llvm::zip(inputs, args))
        bodyMapping.map(input, arg);
      for (Operation *op : ops)
        if (op != keep)
          cloneInto(op);
      remarkFused(ops, name, outputs);
      SmallVector<Value> results;
      for (Value output : outputs)
        results.push_back(bodyMapping.lookup(output));
      if (!last)
        return results;
      Value mask = cloneCheap(keep.getMask());
      kept = ListKeptOp::create(builder, keep.getLoc(), list, counts, mask);
      if (Value to = keep.getDestination()) {
        members = ListMembersOp::create(
            builder, keep.getLoc(), list, mask, cloneCheap(to),
            keep.getSharePositions(),
            keep.getAtMost() ? cloneCheap(keep.getAtMost()) : Value(),
            BufferAttr());
        results.push_back(members);
      }
      results.append({kept.getIndices(), kept.getCounts()});
      return results;
    };
    KernelOp kernel = openKernel(ops.front()->getLoc(), kind, name, operands,
                                 types, fill, uses, everyRow, ofMembers);
    for (auto [output, result] : llvm::zip(outputs, kernel.getOutputs()))
      stored.map(output, result);
    if (members)
      makeMerge(kernel.getResultOf(members));
    else if (kept)
      makeCompact({kernel.getResultOf(kept.getIndices()),
                   kernel.getResultOf(kept.getCounts())});
  }

  std::string nameOf(KernelKind kind, Stages::Kind stage) {
    return stringifyKernelKind(kind).str() + std::to_string(numbers[stage]++);
  }

  /// What blocks add to is set to 0 by a kernel in front: one that does nothing
  /// else, where there is no other.
  void ensureCleared(Location loc) {
    if (llvm::none_of(policy.getOps<KernelOp>(), canClear))
      openKernel(loc, KernelKind::Spans,
                 nameOf(KernelKind::Spans, Stages::Spans), {}, {},
                 [](ValueRange) { return SmallVector<Value>(); });
  }

  /// The kernel behind the last stage. It reads `first` and, where they are stored,
  /// `values`; the others it makes again. `fill` is given both.
  void makeLast(ValueRange first, ArrayRef<Value> values,
                llvm::function_ref<void(ValueRange, ArrayRef<Value>)> fill) {
    llvm::SetVector<Value> inputs;
    for (Value value : values)
      if (!stages.isCheap(value.getDefiningOp()))
        inputs.insert(value);
    SmallVector<Value> operands(first);
    for (Value input : inputs)
      operands.push_back(stored.lookup(input));
    openKernel(keep.getLoc(), KernelKind::Compact, "compact", operands, {},
               [&](ValueRange args) -> SmallVector<Value> {
                 for (auto [input, arg] :
                      llvm::zip(inputs, args.drop_front(first.size())))
                   bodyMapping.map(input, arg);
                 fill(args, llvm::map_to_vector(values, [&](Value value) {
                        return cloneCheap(value);
                      }));
                 return {};
               });
  }

  void makeMerge(Value members) {
    SmallVector<Value> values{keep.getWeight()};
    llvm::append_range(values, keep.getCarried());
    makeLast(members, values, [&](ValueRange args, ArrayRef<Value> made) {
      MergeOp::create(builder, keep.getLoc(), args[0], made[0],
                      keep.getNamesAttr(), made.drop_front());
    });
  }

  void makeCompact(ValueRange kept) {
    makeLast(kept, llvm::to_vector(keep.getCarried()),
             [&](ValueRange args, ArrayRef<Value> carried) {
               CompactOp::create(builder, keep.getLoc(), args[0], args[1],
                                 keep.getNamesAttr(), carried);
             });
  }

  void collectInputs(Operation *op, int stage, llvm::SetVector<Value> &inputs) {
    Stages::forSources(op, [&](Value operand, Reach) {
      Operation *def = operand.getDefiningOp();
      // The weight of a merge, and what rows carry, are read by the compact kernel
      // only.
      bool later = op == keep && operand != keep.getMask() &&
                   operand != keep.getDestination();
      if (stages.isCheap(def) || later)
        return;
      if (stages.of(def) < stage)
        inputs.insert(operand);
    });
  }

  /// Clones one op, storing what it needs at several tokens. Parts of it, where
  /// it has some, are combined instead.
  void cloneInto(Operation *op) {
    Value partial = op->getNumResults() == 1
                        ? bodyMapping.lookupOrNull(op->getResult(0))
                        : Value();
    if (partial) {
      auto reduce = cast<ReduceOp>(op);
      bodyMapping.map(reduce.getResult(),
                      CombinePartsOp::create(builder, op->getLoc(),
                                             reduce.getType(), reduce.getKind(),
                                             partial));
      return;
    }
    Operation *copy = clone(op);
    for (OpOperand *row : needsOf(copy).rows) {
      Value value = row->get();
      if (isa<BlockArgument>(value))
        continue;
      Value &copied = inMemory[value];
      if (!copied) {
        builder.setInsertionPoint(copy);
        copied = StoreOp::create(builder, op->getLoc(), value.getType(), value,
                                 BufferAttr());
        builder.setInsertionPointAfter(copy);
      }
      row->set(copied);
    }
  }

  /// Says which tensors are never stored, and how many bytes that saves.
  void remarkFused(ArrayRef<Operation *> ops, StringRef name,
                   const llvm::SetVector<Value> &outputs) {
    llvm::SetVector<Operation *> fused;
    for (Operation *op : ops) {
      Stages::forVirtual(op, [&](Operation *read) {
        if (Stages::hasQueries(read->getResult(0).getType()))
          fused.insert(read);
      });
      fused.insert(op);
    }
    for (Operation *op : fused)
      for (Value result : op->getResults()) {
        if (axesOf(result.getType()).size() < 2 || outputs.contains(result) ||
            !bodyMapping.contains(result))
          continue;
        Value copy = bodyMapping.lookup(result);
        if (llvm::none_of(copy.getUsers(), llvm::IsaPred<StoreOp>))
          op->emitRemark("fused into ")
              << name << ": " << bytesOf(result.getType())
              << " bytes are neither written nor read";
      }
  }
};

struct FormKernelsPass : public kvc::impl::FormKernelsBase<FormKernelsPass> {
  void runOnOperation() override {
    if (!isa<KeepOp>(getOperation().getBody().front().back()))
      return; // already fused
    if (failed(KernelFormer(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
