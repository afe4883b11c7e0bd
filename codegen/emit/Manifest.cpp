//===- Manifest.cpp - what the runtime must know about the kernels --------===//

#include "codegen/emit/Manifest.h"

#include "codegen/kernels/Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace kvc;
namespace json = llvm::json;

std::string kvc::kernelName(PolicyOp policy, KernelOp kernel,
                            const Shape &shape) {
  return (policy.getSymName() + "_" + kernel.getName() + "_" + shape.suffix())
      .str();
}

/// {"bytes": 4, "dims": ["batch", "kv_heads", "tokens"], "live": [2, 3]}
static json::Object describeBuffer(Type type, BufferAttr buffer, bool staged) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t bytes = std::max(1u, tensor.getElementTypeBitWidth() / 8);
  json::Array dims{"batch"};
  for (auto [axis, extent] : llvm::zip(axesOf(type), tensor.getShape())) {
    if (staged && axis == Axis::OneHead)
      dims.push_back("kv_heads"); // one copy per block
    else if (!ShapedType::isDynamic(extent))
      bytes *= extent;
    else if (axis == Axis::QueryHeads)
      dims.push_back("q_heads");
    else if (axis == Axis::KVHeads)
      dims.push_back("kv_heads");
    else if (axis == Axis::Channel)
      dims.push_back("head_dim");
    else if (axis == Axis::Split)
      dims.push_back("ceildiv(tokens," + std::to_string(splitTokens) + ")");
    else
      dims.push_back("tokens");
  }
  return json::Object{
      {"bytes", bytes},
      {"dims", std::move(dims)},
      {"live", json::Array{buffer.getFirst(), buffer.getLast()}}};
}

static json::Array describeBuffers(PolicyOp policy) {
  SmallVector<std::pair<unsigned, json::Object>> found;
  for (auto kernel : policy.getOps<KernelOp>()) {
    if (auto buffers = kernel->getAttrOfType<ArrayAttr>("buffers"))
      for (auto [attr, result] : llvm::zip(buffers, kernel.getOutputs())) {
        auto buffer = cast<BufferAttr>(attr);
        found.push_back({buffer.getIndex(),
                         describeBuffer(result.getType(), buffer, false)});
      }
    kernel.getBody().walk([&](Operation *op) {
      if (auto buffer = op->getAttrOfType<BufferAttr>("buffer"))
        found.push_back(
            {buffer.getIndex(),
             describeBuffer(op->getResult(0).getType(), buffer, true)});
    });
  }
  llvm::sort(found, [](auto &a, auto &b) { return a.first < b.first; });
  json::Array result;
  for (auto &[index, object] : found)
    result.push_back(std::move(object));
  return result;
}

/// What the last stage of the selection ranked: the buffer of its scores.
static json::Value describeScores(PolicyOp policy) {
  TopkOp last;
  policy.walk([&](TopkOp topk) { last = topk; });
  if (!last)
    return nullptr;
  Value score = last.getScore();
  BufferAttr buffer;
  Axis heads = headsOf(score.getType());
  if (auto stage = score.getDefiningOp<StageOp>()) {
    buffer = cast<BufferAttr>(stage->getAttr("buffer"));
    heads = Axis::KVHeads;
  } else {
    auto kernel = cast<KernelOp>(last->getParentOp());
    Value operand =
        kernel.getInputs()[cast<BlockArgument>(score).getArgNumber()];
    auto maker = operand.getDefiningOp<KernelOp>();
    buffer = cast<BufferAttr>(cast<ArrayAttr>(
        maker->getAttr("buffers"))[cast<OpResult>(operand).getResultNumber()]);
  }
  return json::Object{{"buffer", buffer.getIndex()},
                      {"heads", stringifyAxis(heads).str()}};
}

/// Parts of a layer's work, as kvc.h cuts it.
static StringRef phaseOf(KernelOp kernel, gpu::GPUFuncOp func) {
  if (kernel.getKind() == KernelKind::Compact)
    return "compact";
  auto args = cast<ArrayAttr>(func->getAttr("kvc.args"));
  return llvm::is_contained(args.getAsValueRange<StringAttr>(), "indices")
             ? "select"
             : "score";
}

static json::Object describeKernel(KernelOp kernel, gpu::GPUFuncOp func) {
  auto strings = [](Attribute attr) {
    json::Array result;
    for (Attribute item : cast<ArrayAttr>(attr))
      result.push_back(cast<StringAttr>(item).getValue());
    return result;
  };
  bool forLse = kernel.getKind() == KernelKind::Statistics ||
                kernel.getKind() == KernelKind::Combine;
  return json::Object{{"name", func.getName()},
                      {"kind", stringifyKernelKind(kernel.getKind()).str()},
                      {"phase", phaseOf(kernel, func)},
                      {"block", (*func.getKnownBlockSize())[0]},
                      {"grid", strings(func->getAttr("kvc.grid"))},
                      {"args", strings(func->getAttr("kvc.args"))},
                      {"skipped_with_lse", forLse}};
}

std::string kvc::writeManifest(PolicyOp policy, ArrayRef<Shape> shapes,
                               gpu::GPUModuleOp module) {
  json::Value queries = 0, lse = nullptr;
  int64_t most = 0;
  bool all = false;
  policy.walk([&](AttentionOp op) {
    all |= op.readsAll();
    most = std::max(most, constantOf(op.getLast()));
  });
  if (all)
    queries = "all";
  else
    queries = most;
  policy.walk([&](Operation *op) {
    if (!isa<CombineStatisticsOp, RowLogSumExpOp>(op))
      return;
    auto kernel = cast<KernelOp>(op->getParentOp());
    lse = cast<BufferAttr>(cast<ArrayAttr>(kernel->getAttr("buffers"))[0])
              .getIndex();
  });

  json::Value window = 0; // null: known at launch only
  policy.walk([&](ListKeptOp list) {
    Value protect =
        cast<YieldOp>(list->getBlock()->getTerminator()).getProtectLast();
    if (!protect)
      return;
    if (protect.getDefiningOp<arith::ConstantOp>())
      window = constantOf(protect);
    else
      window = nullptr;
  });

  json::Object params;
  if (auto bound = policy->getAttrOfType<DictionaryAttr>("params"))
    for (NamedAttribute param : bound) {
      if (auto integer = dyn_cast<IntegerAttr>(param.getValue()))
        params[param.getName().getValue()] = integer.getInt();
      else if (auto real = dyn_cast<FloatAttr>(param.getValue()))
        params[param.getName().getValue()] = real.getValueAsDouble();
    }

  json::Array variants;
  for (const Shape &shape : shapes) {
    json::Array kernels;
    for (auto kernel : policy.getOps<KernelOp>())
      kernels.push_back(
          describeKernel(kernel, module.lookupSymbol<gpu::GPUFuncOp>(
                                     kernelName(policy, kernel, shape))));
    variants.push_back(json::Object{{"head_dim", shape.headDim},
                                    {"group", shape.group},
                                    {"dtype", shape.dtypeName()},
                                    {"vector", shape.vectorWidth()},
                                    {"kernels", std::move(kernels)}});
  }
  json::Object manifest{
      {"format", manifestFormat},         {"policy", policy.getSymName()},
      {"params", std::move(params)},      {"queries", std::move(queries)},
      {"window", std::move(window)},      {"lse_buffer", std::move(lse)},
      {"scores", describeScores(policy)}, {"buffers", describeBuffers(policy)},
      {"variants", std::move(variants)}};
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::formatv("{0:2}", json::Value(std::move(manifest)));
  return text;
}
