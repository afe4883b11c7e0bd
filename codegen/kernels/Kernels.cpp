//===- Kernels.cpp - what kernel builders share ---------------------------===//

#include "codegen/kernels/Kernels.h"

#include "codegen/kernels/KeyPrefixes.h"
#include "codegen/kernels/RowStates.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kvc;

std::string kvc::scratchName(BufferAttr buffer) {
  return "scratch." + std::to_string(buffer.getIndex());
}

/// Numbers of one head, of values that have no channels.
static Expr rowLength(KernelBuilder &k, const AxisList &axes) {
  switch (axes.back()) {
  case Axis::Bin:
    return k.index(digitBins);
  case Axis::Pair:
    return axes[1] == Axis::Split ? splitCount(k) * 2 : k.index(2);
  case Axis::Split:
    return splitCount(k);
  default:
    return axes.size() == 1 ? k.index(1) : k.arg("max_tokens");
  }
}

Buffer kvc::scratchBuffer(KernelBuilder &k, StringRef name, Type type) {
  AxisList axes = axesOf(type);
  Expr heads = axes.front() == Axis::QueryHeads
                   ? k.arg("kv_heads") * k.shape.group
               : axes.front() == Axis::KVHeads ? k.arg("kv_heads")
                                               : k.index(1);
  if (axes.size() == 1)
    return k.buffer(name, {heads});
  if (axes.back() == Axis::Channel) {
    Expr d = k.index(k.shape.headDim);
    return k.buffer(name, {heads * d, d});
  }
  if (isPrefixes(type))
    return prefixBuffer(k, name);
  Expr row = rowLength(k, axes);
  return k.buffer(name, {heads * row, row});
}

Expr kvc::splitCount(KernelBuilder &k) {
  return (k.arg("max_tokens") + (splitTokens - 1)) / splitTokens;
}

Expr kvc::hasLists(KernelBuilder &k, const KernelSite &site) {
  return k.arg("max_tokens") > k.index(site.listsAbove);
}

Buffer kvc::partsBuffer(KernelBuilder &k, StringRef name) {
  Expr splits = splitCount(k);
  Expr d = k.index(k.shape.headDim), head = splits * k.shape.headDim;
  return k.buffer(name, {head * k.arg("kv_heads"), head, d});
}

SmallVector<std::string> kvc::outputBuffers(KernelOp kernel) {
  SmallVector<std::string> names;
  if (ArrayAttr buffers = kernel.getBuffersAttr())
    for (Attribute buffer : buffers)
      names.push_back(scratchName(cast<BufferAttr>(buffer)));
  return names;
}

SmallVector<ClearedBuffer> kvc::clearedBuffers(KernelOp kernel) {
  auto kernels =
      llvm::to_vector(kernel->getParentOfType<PolicyOp>().getOps<KernelOp>());
  size_t own = llvm::find(kernels, kernel) - kernels.begin();
  SmallVector<ClearedBuffer> cleared;
  for (KernelOp later : ArrayRef(kernels).drop_front(own + 1)) {
    ArrayAttr buffers = later.getBuffersAttr();
    if (!buffers)
      continue;
    auto yield = cast<YieldOp>(later.getBody().front().back());
    for (auto [value, attr] : llvm::zip(yield.getValues(), buffers))
      if (auto buffer = cast<BufferAttr>(attr);
          isAddedTo(value) && buffer.getFirst() == own)
        cleared.push_back({scratchName(buffer), value.getType()});
  }
  return cleared;
}

void kvc::clearBuffers(KernelBuilder &k, KernelOp kernel, Expr sequence) {
  auto grid = cast<ArrayAttr>(k.func->getAttr("kvc.grid"));
  bool perHead = cast<StringAttr>(grid[1]).getValue() == "kv_heads";
  int64_t threads = (*k.func.getKnownBlockSize())[0];
  for (const ClearedBuffer &buffer : clearedBuffers(kernel)) {
    Expr row = rowLength(k, axesOf(buffer.type)), heads = k.arg("kv_heads");
    Expr first = perHead ? k.block(gpu::Dimension::y) * row : k.index(0);
    Expr count = perHead ? row : heads * row;
    Buffer memory = k.buffer(buffer.name, {heads * row});
    k.when(k.block(gpu::Dimension::x) == 0, [&] {
      k.loop(k.thread(), count, threads,
             [&](Expr i) { k.store(k.i32(0), memory, {sequence, first + i}); });
    });
  }
}

bool kvc::merges(KernelOp kernel) {
  return !kernel.getBody().getOps<MergeOp>().empty();
}

bool kvc::placesMerged(KernelOp kernel, const Shape &shape) {
  return merges(kernel) && shape.into != Into::Packed;
}

Expr kvc::keptAs(KernelBuilder &k, Expr sequence, Expr head, Expr row) {
  Expr capacity = k.arg("index_capacity");
  Buffer indices =
      k.buffer("indices", {k.arg("kv_heads") * capacity, capacity});
  return k.load(indices, {sequence, head, row}).toIndex();
}

void kvc::addArg(std::vector<std::string> &args, StringRef name) {
  if (!llvm::is_contained(args, name))
    args.push_back(name.str());
}

/// The arguments that hold what the engine hands over.
static void addInputArgs(std::vector<std::string> &args, const Shape &shape,
                         EngineInput input) {
  auto add = [&](std::initializer_list<const char *> names) {
    for (const char *name : names)
      addArg(args, name);
  };
  switch (input) {
  case EngineInput::Queries:
    return add({"q", "q_rows", "q_batch", "q_head", "q_row"});
  case EngineInput::Keys:
    return addSideArgs(args, shape, CacheSide::Key);
  case EngineInput::RawKeys:
    return addSideArgs(args, shape, CacheSide::RawKey);
  case EngineInput::Values:
    return addSideArgs(args, shape, CacheSide::Value);
  case EngineInput::OutputProjection:
    return add({"wo", "wo_batch", "wo_head", "wo_row", "hidden"});
  case EngineInput::Table:
    return add({"table"});
  case EngineInput::Layer:
    return add({"layer", "layers"});
  case EngineInput::State:
    return add({"state", "state_rows"});
  case EngineInput::NewQueries:
    return add({"new_queries"});
  case EngineInput::RowState:
    return addRowStateArgs(args, shape);
  case EngineInput::Since:
    return add({"since", "since_given"});
  case EngineInput::Members:
    return MemberTable::addArgs(args);
  case EngineInput::Angles:
    return add({"rope", "rope_positions"});
  }
}

/// What ops read that are computed wherever their operands are.
static void addBodyArgs(KernelOp kernel, const Shape &shape,
                        std::vector<std::string> &args) {
  for (Operation &op : kernel.getBody().getOps())
    if (Needs needs = needsOf(&op); !needs.kernel)
      for (EngineInput input : needs.inputs)
        addInputArgs(args, shape, input);
}

void kvc::addOwnArgs(KernelOp kernel, const Shape &shape,
                     std::vector<std::string> &args) {
  llvm::SmallSetVector<EngineInput, 8> inputs;
  bool lse = false, gram = false;
  for (Operation &op : kernel.getBody().getOps()) {
    Needs needs = needsOf(&op);
    lse |= needs.prepared == Prepared::LogSumExp;
    gram |= needs.prepared == Prepared::Gram;
    if (needs.kernel)
      inputs.insert_range(needs.inputs);
  }
  // What attention reads stands together, the weights behind what is theirs.
  if (inputs.contains(EngineInput::Queries)) {
    addInputArgs(args, shape, EngineInput::Queries);
    addInputArgs(args, shape, EngineInput::Keys);
    addArg(args, "logit_scale");
  }
  if (lse)
    for (const char *arg :
         {"lse", "lse_rows", "lse_batch", "lse_head", "lse_scale"})
      addArg(args, arg);
  for (EngineInput input : inputs)
    if (input != EngineInput::OutputProjection)
      addInputArgs(args, shape, input);
  if (inputs.contains(EngineInput::OutputProjection))
    addInputArgs(args, shape, EngineInput::OutputProjection);
  if (gram)
    addArg(args, "wo_batch");
}

std::vector<std::string> kvc::sequenceArgs(const Shape &shape) {
  std::vector<std::string> args{"lengths", "budgets", "kv_heads", "max_tokens"};
  addRowArgs(args, shape);
  return args;
}

void kvc::setKeys(LaunchSpec &spec, const KernelSite &site) {
  if (site.keys.empty())
    return;
  addArg(spec.args, site.keys);
  spec.keys = site.keys;
}

LaunchSpec kvc::bodyLaunch(KernelOp kernel, const KernelSite &site) {
  LaunchSpec spec;
  spec.args = sequenceArgs(site.shape);
  setKeys(spec, site);
  addBodyArgs(kernel, site.shape, spec.args);
  for (const std::string &input : site.inputs)
    if (!input.empty()) // the lists of kept rows are the caller's
      addArg(spec.args, input);
  for (const std::string &output : outputBuffers(kernel))
    addArg(spec.args, output);
  kernel.getBody().walk([&](ScratchOpInterface op) {
    addArg(spec.args, scratchName(op.getBufferAttr()));
  });
  for (const ClearedBuffer &buffer : clearedBuffers(kernel))
    addArg(spec.args, buffer.name);
  if (kernel.getEveryRow())
    addArg(spec.args, "carries");
  return spec;
}

Expr kvc::headIndex(KernelBuilder &k, Axis heads, const Point &point) {
  if (heads == Axis::OneHead)
    return k.index(0);
  if (heads == Axis::KVHeads)
    return point.kvHead;
  Expr first = point.kvHead * k.shape.group;
  if (point.laneMember.valid())
    return first + point.laneMember;
  return first + std::max(point.member, 0);
}

Expr kvc::tokenIndex(KernelBuilder &k, const SequenceScalars &s, Axis heads,
                     const Point &point) {
  return heads == Axis::OneHead ? positionOf(k, s, point) : point.token;
}

Buffer kvc::projectionBuffer(KernelBuilder &k) {
  return k.buffer("wo", {k.arg("wo_batch"), k.arg("wo_head"), k.arg("wo_row")});
}

std::optional<Expr> kvc::readInput(KernelBuilder &k, const SequenceScalars &s,
                                   const KernelSite &site, Value value,
                                   const Point &point) {
  auto arg = dyn_cast<BlockArgument>(value);
  if (!arg)
    return std::nullopt;
  AxisList axes = axesOf(value.getType());
  SmallVector<Expr> at{s.sequence, headIndex(k, axes.front(), point)};
  if (axes.size() > 1)
    at.push_back(axes.back() == Axis::Past
                     ? tokenIndex(k, s, axes.front(), point)
                 : axes.back() == Axis::Channel ? point.channel
                                                : point.token);
  Buffer buffer =
      scratchBuffer(k, site.inputs[arg.getArgNumber()], value.getType());
  // Four channels at a time; their readers' loads are the same, and become one.
  constexpr int64_t width = 4;
  if (axes.back() == Axis::Channel && point.access.valid() &&
      k.shape.vectorWidth() % width == 0) {
    at.back() = point.access + point.element / width * width;
    return k.element(k.loadVector(buffer, at, width), point.element % width);
  }
  return k.load(buffer, at);
}

int64_t kvc::warpsThatFit(int64_t bytes, int64_t most) {
  while (most > 1 && most * bytes > maxSharedBytes)
    most /= 2;
  return most;
}
