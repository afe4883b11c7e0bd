//===- ConvertKVCToGPU.cpp - convert-kvc-to-gpu ---------------------------===//

#include "codegen/emit/Manifest.h"
#include "codegen/LaunchMemory.h"
#include "codegen/Passes.h"
#include "codegen/WarpgroupForms.h"
#include "codegen/lower/CheckCache.h"
#include "codegen/kernels/Kernels.h"

namespace kvc {
#define GEN_PASS_DEF_CONVERTKVCTOGPU
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

void buildKernel(KernelOp kernel, const KernelSite &site) {
  switch (kernel.getKind()) {
  case KernelKind::Statistics:
    return buildStatistics(kernel, site);
  case KernelKind::Combine:
    return buildCombine(kernel, site);
  case KernelKind::Columns:
    return buildColumns(kernel, site);
  case KernelKind::Segments:
    return buildSegments(kernel, site);
  case KernelKind::Rows:
  case KernelKind::Spans:
    return movesKept(kernel, site.shape) ? buildKeep(kernel, site)
                                         : buildRows(kernel, site);
  case KernelKind::Sequence:
    return buildSequence(kernel, site);
  case KernelKind::Gram:
    return buildGram(kernel, site);
  case KernelKind::Parts:
    return buildParts(kernel, site);
  case KernelKind::Nearest:
    return buildNearest(kernel, site);
  case KernelKind::Keys:
    return buildMemberKeys(kernel, site);
  case KernelKind::Norms:
    return buildNorms(kernel, site);
  case KernelKind::Compact:
    if (merges(kernel))
      return buildMerge(kernel, site);
    return buildCompact(kernel, site);
  }
}

/// True for a plan of these kernels; one that was read may be of others.
bool isPlanned(PolicyOp policy) {
  PlanAttr plan = policy.getPlanAttr();
  auto kernels = policy.getOps<KernelOp>();
  if (!plan || plan.getPhases().size() !=
                   size_t(std::distance(kernels.begin(), kernels.end())))
    return false;
  size_t buffers = 0;
  bool known = true;
  auto note = [&](BufferAttr buffer) {
    ++buffers;
    known &= buffer && buffer.getIndex() >= 0 &&
             size_t(buffer.getIndex()) < plan.getBuffers().size();
  };
  for (KernelOp kernel : kernels) {
    if (ArrayAttr own = kernel.getBuffersAttr())
      for (Attribute buffer : own)
        note(dyn_cast<BufferAttr>(buffer));
    for (Operation &op : kernel.getBody().getOps())
      if (auto scratch = dyn_cast<ScratchOpInterface>(op))
        note(scratch.getBufferAttr());
  }
  auto isOne = [&](auto buffer) { return !buffer || *buffer < buffers; };
  return known && plan.getBuffers().size() == buffers && isOne(plan.getLse()) &&
         isOne(plan.getScores());
}

/// The element type of each buffer.
llvm::StringMap<Type> scratchFor(PlanAttr plan, const Shape &shape) {
  llvm::StringMap<Type> elements;
  for (auto [index, buffer] : llvm::enumerate(plan.getBuffers()))
    elements["scratch." + std::to_string(index)] =
        buffer.inModelType ? shape.elementType(buffer.type.getContext())
                           : buffer.type.getElementType();
  return elements;
}

/// No builder knows an op that is left as it was.
LogicalResult checkComputed(gpu::GPUFuncOp func) {
  WalkResult result = func.walk([](Operation *op) {
    if (!isa_and_nonnull<KVCDialect>(op->getDialect()))
      return WalkResult::advance();
    op->emitOpError("is not computed by kernels of this kind");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Its parts lie behind each other, as in launch memory (LaunchMemory.cpp).
int64_t sharedBytes(gpu::GPUFuncOp func) {
  int64_t bytes = 0;
  for (BlockArgument memory : func.getWorkgroupAttributions()) {
    auto type = cast<MemRefType>(memory.getType());
    auto alignment = func.getWorkgroupAttributionAttr(
        memory.getArgNumber() - func.getNumArguments(), "llvm.align");
    bytes = llvm::alignTo(bytes, cast<IntegerAttr>(alignment).getInt());
    bytes += llvm::alignTo(
        type.getNumElements() * type.getElementTypeBitWidth() / 8, 16);
  }
  return bytes;
}

struct ConvertKVCToGPUPass
    : public kvc::impl::ConvertKVCToGPUBase<ConvertKVCToGPUPass> {
  using ConvertKVCToGPUBase::ConvertKVCToGPUBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<PolicyOp> policies(module.getOps<PolicyOp>());
    if (policies.size() != 1) {
      module.emitError("a module must have one policy, got ")
          << policies.size();
      return signalPassFailure();
    }
    PolicyOp policy = policies.front();
    if (!isa<DoneOp>(policy.getBody().front().back())) {
      policy.emitError("kernels must be formed first (kvc-form-kernels)");
      return signalPassFailure();
    }
    if (!isPlanned(policy)) {
      policy.emitError("the plan must be written first (kvc-write-plan)");
      return signalPassFailure();
    }
    SmallVector<Shape> parsed;
    SmallVector<StringRef> texts;
    StringRef(shapes).split(texts, ';', -1, false);
    for (StringRef text : texts) {
      llvm::Expected<Shape> shape = Shape::parse(text);
      if (!shape) {
        module.emitError(llvm::toString(shape.takeError()));
        return signalPassFailure();
      }
      if (!llvm::is_contained(parsed, *shape))
        parsed.push_back(*shape);
    }
    if (parsed.empty()) {
      module.emitError(
          "a shape must be given (head_dim=N,group=N,dtype=T,cache=C)");
      return signalPassFailure();
    }
    if (listsAbove < 0 || listsAbove > longestWithoutLists) {
      module.emitError("lists-above must be 0 to ")
          << longestWithoutLists << ", got " << listsAbove.getValue();
      return signalPassFailure();
    }
    for (const Shape &shape : parsed)
      if (failed(checkCache(policy, shape)))
        return signalPassFailure();
    if (failed(convert(policy, parsed)))
      signalPassFailure();
  }

  /// Builds one function behind the others, and checks it.
  static LogicalResult
  finish(KernelOp kernel, const KernelSite &site,
         llvm::function_ref<void(KernelOp, const KernelSite &)> build,
         gpu::GPUModuleOp target) {
    site.builder.setInsertionPointToEnd(target.getBody());
    build(kernel, site);
    auto func = target.lookupSymbol<gpu::GPUFuncOp>(site.name);
    site.builder.setInsertionPointToEnd(&func.getBody().front());
    gpu::ReturnOp::create(site.builder);
    if (failed(checkComputed(func)))
      return failure();
    int64_t bytes = sharedBytes(func);
    if (bytes > maxLaunchBytes)
      return kernel.emitError("a kernel may use ")
             << maxLaunchBytes << " bytes of shared memory, "
             << kernel.getName() << " needs " << bytes
             << "; use a smaller window";
    if (bytes > maxSharedBytes)
      func->setAttr(launchBytesAttr, site.builder.getI64IntegerAttr(bytes));
    return success();
  }

  /// Beside the kernel itself, which has the same grid.
  static LogicalResult buildWarpgroupForm(KernelOp kernel, KernelSite site,
                                          gpu::GPUModuleOp target) {
    auto plain = target.lookupSymbol<gpu::GPUFuncOp>(site.name);
    site.name += "_warpgroups";
    site.warpgroups = true;
    if (failed(finish(kernel, site, buildKernel, target)))
      return failure();
    auto form = target.lookupSymbol<gpu::GPUFuncOp>(site.name);
    assert(form.getFunctionType() == plain.getFunctionType() &&
           form->getAttr("kvc.grid") == plain->getAttr("kvc.grid") &&
           "forms are launched with the same grid");
    if (int64_t threads = (*form.getKnownBlockSize())[0];
        threads != (*plain.getKnownBlockSize())[0])
      plain->setAttr(warpgroupBlockAttr,
                     site.builder.getI64IntegerAttr(threads));
    if (plain->hasAttr(launchBytesAttr) || form->hasAttr(launchBytesAttr)) {
      auto bytes = site.builder.getI64IntegerAttr(
          std::max(sharedBytes(plain), sharedBytes(form)));
      plain->setAttr(launchBytesAttr, bytes);
      form->setAttr(launchBytesAttr, bytes);
    }
    form->setAttr(warpgroupsOfAttr,
                  site.builder.getStringAttr(plain.getName()));
    return success();
  }

  static LogicalResult buildForms(KernelOp kernel, const KernelSite &site,
                                  gpu::GPUModuleOp target) {
    if (failed(finish(kernel, site, buildKernel, target)))
      return failure();
    return success(!hasWarpgroupForm(kernel, site) ||
                   succeeded(buildWarpgroupForm(kernel, site, target)));
  }

  LogicalResult convert(PolicyOp policy, ArrayRef<Shape> shapes) {
    llvm::DenseMap<Value, std::string> holder;
    for (auto kernel : policy.getOps<KernelOp>())
      if (ArrayAttr buffers = kernel.getBuffersAttr())
        for (auto [attr, result] : llvm::zip(buffers, kernel.getOutputs()))
          holder[result] = scratchName(cast<BufferAttr>(attr));

    ImplicitLocOpBuilder builder(policy.getLoc(), policy);
    auto target = gpu::GPUModuleOp::create(builder, policy.getSymName());
    for (const Shape &shape : shapes)
      for (auto kernel : policy.getOps<KernelOp>()) {
        builder.setLoc(kernel.getLoc());
        Shape own = shape;
        if (kernel.getOfMembers())
          own.cache = CacheKind::Members;
        KernelSite site{builder, kernelName(policy, kernel, shape),
                        own,     scratchFor(policy.getPlanAttr(), shape),
                        {},      holder.lookup(kernel.getKeys())};
        site.listsAbove = listsAbove;
        // The log-sum-exp has an argument of its own: it may be the caller's.
        for (ValueRange inputs :
             {ValueRange(kernel.getIns()), ValueRange(kernel.getGram())})
          for (Value input : inputs)
            site.inputs.push_back(holder.lookup(input));
        if (failed(buildForms(kernel, site, target)))
          return failure();
        if (hasFormOfShortCalls(kernel, site)) {
          KernelSite ofShort = site;
          ofShort.name = shortName(policy, kernel, shape);
          ofShort.ofShortCalls = true;
          if (failed(buildForms(kernel, ofShort, target)))
            return failure();
        }
        if (placesMerged(kernel, shape)) {
          site.name = placeName(policy, shape);
          if (failed(finish(kernel, site, buildPlace, target)))
            return failure();
        }
      }
    target->setAttr(manifestAttr, builder.getStringAttr(
                                      writeManifest(policy, shapes, target)));
    policy.erase();
    return success();
  }
};

} // namespace
