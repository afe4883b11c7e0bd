//===- Manifest.cpp - what the runtime must know about the kernels --------===//

#include "codegen/emit/Manifest.h"

#include "codegen/LaunchMemory.h"
#include "codegen/WarpgroupForms.h"
#include "codegen/kernels/KeyPrefixes.h"
#include "kvc/simt.h"

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

std::string kvc::shortName(PolicyOp policy, KernelOp kernel,
                           const Shape &shape) {
  return (policy.getSymName() + "_" + kernel.getName() + "_short_" +
          shape.suffix())
      .str();
}

std::string kvc::placeName(PolicyOp policy, const Shape &shape) {
  return (policy.getSymName() + "_place_" + shape.suffix()).str();
}

/// Bytes, of rows; an access of `vector` elements may be shorter.
static int64_t hostAlignment(const Shape &shape) {
  return std::min<int64_t>(shape.vectorWidth() * shape.bytesPerElement(),
                           KVC_SIMT_ROW_ALIGNMENT);
}

/// {"bytes": 4, "dims": ["batch", "kv_heads", "tokens"], "live": [2, 3]}
static json::Object describeBuffer(const PlannedBuffer &buffer) {
  int64_t bytes = std::max(1u, buffer.type.getElementTypeBitWidth() / 8);
  json::Array dims{"batch"};
  auto ofTokens = [](int64_t each) {
    return "ceildiv(tokens," + std::to_string(each) + ")";
  };
  for (auto [axis, extent] :
       llvm::zip(axesOf(buffer.type), buffer.type.getShape())) {
    if (buffer.perBlock && axis == Axis::OneHead)
      dims.push_back("kv_heads"); // a block is a head's
    else if (!ShapedType::isDynamic(extent))
      bytes *= extent;
    else if (axis == Axis::QueryHeads)
      dims.push_back("q_heads");
    else if (axis == Axis::KVHeads)
      dims.push_back("kv_heads");
    else if (axis == Axis::Channel)
      dims.push_back("head_dim");
    else if (axis == Axis::Split)
      dims.push_back(ofTokens(splitTokens));
    else if (isPrefixes(buffer.type)) {
      dims.push_back(ofTokens(prefixesTogether));
      bytes *= prefixesTogether;
    } else
      dims.push_back("tokens");
  }
  return json::Object{{"bytes", bytes},
                      {"dims", std::move(dims)},
                      {"live", json::Array{buffer.first, buffer.last}}};
}

static json::Value describeScores(PlanAttr plan) {
  if (!plan.getScores())
    return nullptr;
  return json::Object{{"buffer", *plan.getScores()},
                      {"heads", stringifyAxis(plan.getScoreHeads()).str()}};
}

static json::Object describeKernel(KernelOp kernel, Phase phase,
                                   bool skippedWithLse, gpu::GPUFuncOp func) {
  auto strings = [](Attribute attr) {
    json::Array result;
    for (Attribute item : cast<ArrayAttr>(attr))
      result.push_back(cast<StringAttr>(item).getValue());
    return result;
  };
  json::Object described{{"name", func.getName()},
                         {"kind", stringifyKernelKind(kernel.getKind()).str()},
                         {"phase", stringifyPhase(phase).str()},
                         {"block", (*func.getKnownBlockSize())[0]},
                         {"grid", strings(func->getAttr("kvc.grid"))},
                         {"args", strings(func->getAttr("kvc.args"))},
                         {"skipped_with_lse", skippedWithLse}};
  for (StringRef limit : {"above_tokens", "up_to_tokens"})
    if (auto tokens = func->getAttrOfType<IntegerAttr>("kvc." + limit.str()))
      described[limit] = tokens.getInt();
  if (auto bytes = func->getAttrOfType<IntegerAttr>(launchBytesAttr))
    described["shared_bytes"] = bytes.getInt();
  if (auto threads = func->getAttrOfType<IntegerAttr>(warpgroupBlockAttr))
    described["warpgroup_block"] = threads.getInt();
  return described;
}

std::string kvc::writeManifest(PolicyOp policy, ArrayRef<Shape> shapes,
                               gpu::GPUModuleOp module) {
  PlanAttr plan = policy.getPlanAttr();
  json::Value queries = plan.getQueries(), window = nullptr, lse = nullptr;
  if (plan.readsAllQueries())
    queries = "all";
  if (plan.getProtectLast())
    window = *plan.getProtectLast();
  if (plan.getLse())
    lse = *plan.getLse();
  json::Array buffers;
  for (const PlannedBuffer &buffer : plan.getBuffers())
    buffers.push_back(describeBuffer(buffer));

  json::Object params;
  if (DictionaryAttr bound = policy.getParamsAttr())
    for (NamedAttribute param : bound) {
      if (auto integer = dyn_cast<IntegerAttr>(param.getValue()))
        params[param.getName().getValue()] = integer.getInt();
      else if (auto real = dyn_cast<FloatAttr>(param.getValue()))
        params[param.getName().getValue()] = real.getValueAsDouble();
      else {
        auto [above, below] =
            *parseFraction(cast<StringAttr>(param.getValue()).getValue());
        params[param.getName().getValue()] = double(above) / double(below);
      }
    }

  json::Array states;
  for (StringAttr name : plan.getStates())
    states.push_back(name.getValue());
  json::Array variants;
  for (const Shape &shape : shapes) {
    json::Array kernels;
    for (auto [number, kernel, phase] :
         llvm::enumerate(policy.getOps<KernelOp>(), plan.getPhases())) {
      bool skipped = llvm::is_contained(plan.getSkippedWithLse(), number);
      auto add = [&](const std::string &name) {
        kernels.push_back(describeKernel(
            kernel, phase, skipped, module.lookupSymbol<gpu::GPUFuncOp>(name)));
      };
      if (std::string name = shortName(policy, kernel, shape);
          module.lookupSymbol(name))
        add(name);
      add(kernelName(policy, kernel, shape));
      if (placesMerged(kernel, shape))
        add(placeName(policy, shape));
    }
    variants.push_back(json::Object{{"head_dim", shape.headDim},
                                    {"group", shape.group},
                                    {"dtype", shape.dtypeName()},
                                    {"cache", shape.cacheName()},
                                    {"into", shape.intoName()},
                                    {"vector", shape.vectorWidth()},
                                    {"host_alignment", hostAlignment(shape)},
                                    {"kernels", std::move(kernels)}});
  }
  auto someHas = [&](StringRef attr) {
    return llvm::any_of(
        module.getOps<gpu::GPUFuncOp>(),
        [&](gpu::GPUFuncOp func) { return func->hasAttr(attr); });
  };
  int format = someHas(warpgroupBlockAttr) ? formatWithWarpgroupBlock
               : someHas(launchBytesAttr)  ? formatWithLaunchMemory
                                           : manifestFormat;
  json::Object manifest{
      {"format", format},               {"policy", policy.getSymName()},
      {"params", std::move(params)},    {"queries", std::move(queries)},
      {"window", std::move(window)},    {"lse_buffer", std::move(lse)},
      {"scores", describeScores(plan)}, {"buffers", std::move(buffers)},
      {"variants", std::move(variants)}};
  if (!states.empty())
    manifest["states"] = std::move(states);
  if (plan.getLeastQueries())
    manifest["least_queries"] = *plan.getLeastQueries();
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::formatv("{0:2}", json::Value(std::move(manifest)));
  return text;
}
