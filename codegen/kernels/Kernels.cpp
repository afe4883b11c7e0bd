//===- Kernels.cpp - what kernel builders share ---------------------------===//

#include "codegen/kernels/Kernels.h"

using namespace mlir;
using namespace kvc;

std::string kvc::scratchName(BufferAttr buffer) {
  return "scratch." + std::to_string(buffer.getIndex());
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
  Expr row = k.arg("max_tokens");
  return k.buffer(name, {heads * row, row});
}

SmallVector<std::string> kvc::outputBuffers(KernelOp kernel) {
  SmallVector<std::string> names;
  if (auto buffers = kernel->getAttrOfType<ArrayAttr>("buffers"))
    for (Attribute buffer : buffers)
      names.push_back(scratchName(cast<BufferAttr>(buffer)));
  return names;
}

void kvc::addArg(std::vector<std::string> &args, StringRef name) {
  if (!llvm::is_contained(args, name))
    args.push_back(name.str());
}

/// The arguments that the body reads wherever it is.
static void addBodyArgs(KernelOp kernel, std::vector<std::string> &args) {
  kernel.getBody().walk([&](Operation *op) {
    if (isa<LayerOp, LayersOp, AllocateLayersOp, KeptLayersOp>(op))
      for (const char *arg : {"layer", "layers"})
        addArg(args, arg);
    if (isa<KeptLayersOp>(op))
      for (const char *arg : {"state", "state_rows"})
        addArg(args, arg);
    if (auto vectors = dyn_cast<VectorsOp>(op))
      addSideArgs(args, vectors.getSide());
  });
}

LaunchSpec kvc::bodyLaunch(KernelOp kernel, const KernelSite &site) {
  LaunchSpec spec;
  spec.args = {"lengths", "budgets", "kv_heads", "max_tokens"};
  addBodyArgs(kernel, spec.args);
  for (const std::string &input : site.inputs)
    addArg(spec.args, input);
  for (const std::string &output : outputBuffers(kernel))
    addArg(spec.args, output);
  kernel.getBody().walk([&](Operation *op) {
    if (auto buffer = op->getAttrOfType<BufferAttr>("buffer"))
      addArg(spec.args, scratchName(buffer));
  });
  return spec;
}

Expr kvc::headIndex(KernelBuilder &k, Axis heads, const Point &point) {
  if (heads == Axis::OneHead)
    return k.index(0);
  if (heads == Axis::KVHeads)
    return point.kvHead;
  return point.kvHead * k.shape.group + std::max(point.member, 0);
}

std::string kvc::sideName(CacheSide side) {
  return side == CacheSide::Key     ? "k"
         : side == CacheSide::Value ? "v"
                                    : "k_raw";
}

void kvc::addSideArgs(std::vector<std::string> &args, CacheSide side) {
  for (const char *part : {"", "_batch", "_head", "_token"})
    addArg(args, sideName(side) + part);
}

Buffer kvc::sideBuffer(KernelBuilder &k, CacheSide side) {
  std::string name = sideName(side);
  return k.buffer(name, {k.arg(name + "_batch"), k.arg(name + "_head"),
                         k.arg(name + "_token")});
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
    at.push_back(axes.back() == Axis::Channel ? point.channel : point.token);
  return k.load(
      scratchBuffer(k, site.inputs[arg.getArgNumber()], value.getType()), at);
}

int64_t kvc::warpsThatFit(int64_t bytes, int64_t most) {
  while (most > 1 && most * bytes > maxSharedBytes)
    most /= 2;
  return most;
}
