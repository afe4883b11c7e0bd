//===- ClusterKernels.cpp - several kernels in one launch of clusters -----===//

#include "codegen/kernels/ClusterKernels.h"

#include "codegen/KernelArgs.h"
#include "codegen/simt/SIMT.h"
#include "kvc/artifact.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kvc;

//===----------------------------------------------------------------------===//
// Which kernels
//===----------------------------------------------------------------------===//

/// True where a block makes a value out of what other heads have.
static bool readsOtherHeads(KernelOp kernel) {
  return llvm::any_of(kernel.getBody().getOps(), [](Operation &op) {
    Needs needs = needsOf(&op);
    return needs.otherHeads || needs.asksHeads;
  });
}

/// True where heads are ranked together: of all of them, and the next kernel has what comes
/// of it from the first one.
static bool ranksAllHeads(KernelOp kernel) {
  return llvm::any_of(kernel.getBody().getOps<ListCandidatesOp>(),
                      [](ListCandidatesOp list) { return list.getAllHeads(); });
}

/// Layers are computed one behind the other; the heads of a layer are not.
static bool readsLayers(KernelOp kernel) {
  return llvm::any_of(kernel.getBody().getOps(), [](Operation &op) {
    return llvm::is_contained(needsOf(&op).inputs, EngineInput::State);
  });
}

/// One number of a head that a block may have asked for of another head: to add up how
/// many rows are in front of its own, say. Where a search goes on it asks for its own.
static bool isAskedOfAnyHead(BlockArgument value) {
  if (axesOf(value.getType()).size() > 1)
    return false;
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    auto topk = dyn_cast<TopkOp>(use.getOwner());
    return !topk || !llvm::is_contained(topk.getCandidates(), use.get());
  });
}

/// Whether `kernel` can follow those of `run`: what it reads of them its own head's blocks
/// have written.
static bool follows(KernelOp kernel, ArrayRef<KernelOp> run) {
  if (readsOtherHeads(kernel))
    return false;
  Block &body = kernel.getBody().front();
  for (auto [operand, value] :
       llvm::zip(kernel.getIns(), body.getArguments())) {
    auto maker = operand.getDefiningOp<KernelOp>();
    if (!llvm::is_contained(run, maker))
      continue;
    if (headsOf(operand.getType()) == Axis::OneHead || isAskedOfAnyHead(value))
      return false;
  }
  return true;
}

SmallVector<SmallVector<KernelOp>> kvc::clusterRuns(PolicyOp policy) {
  SmallVector<SmallVector<KernelOp>> runs;
  SmallVector<KernelOp> run;
  auto end = [&] {
    if (run.size() > 1)
      runs.push_back(run);
    run.clear();
  };
  for (auto kernel : policy.getOps<KernelOp>()) {
    if (kernel.getKind() != KernelKind::Spans || ranksAllHeads(kernel) ||
        readsLayers(kernel)) {
      end();
      continue;
    }
    if (!follows(kernel, run))
      end();
    run.push_back(kernel);
  }
  end();
  return runs;
}

//===----------------------------------------------------------------------===//
// Their bodies behind each other
//===----------------------------------------------------------------------===//

static StringRef nameOf(gpu::GPUFuncOp func, unsigned arg) {
  return cast<StringAttr>(cast<ArrayAttr>(func->getAttr("kvc.args"))[arg]);
}

/// What LLVM may take for granted of a pointer: what it may in every kernel that has it.
/// One kernel may write what is behind it where another one only reads.
static void setPointerAttributes(gpu::GPUFuncOp func,
                                 ArrayRef<gpu::GPUFuncOp> parts) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    for (StringRef attribute : {"llvm.noalias", "llvm.readonly"}) {
      bool all = true;
      for (gpu::GPUFuncOp part : parts)
        for (unsigned j = 0; j < part.getNumArguments(); ++j)
          if (nameOf(part, j) == nameOf(func, i))
            all &= bool(part.getArgAttr(j, attribute));
      if (all)
        func.setArgAttr(i, attribute, UnitAttr::get(func.getContext()));
    }
}

/// Maps the shared memory of a part to that of the kernel: arrays of the same type and
/// alignment become one, as long as the part has no two of them.
static void mapSharedMemory(gpu::GPUFuncOp func, gpu::GPUFuncOp part,
                            IRMapping &mapping) {
  auto alignment = [](gpu::GPUFuncOp of, unsigned i) {
    return of.getWorkgroupAttributionAttr(i, "llvm.align");
  };
  llvm::SmallDenseSet<unsigned> taken;
  for (auto [i, memory] : llvm::enumerate(part.getWorkgroupAttributions())) {
    unsigned at = 0, count = func.getNumWorkgroupAttributions();
    while (at < count &&
           (taken.contains(at) ||
            func.getWorkgroupAttributions()[at].getType() != memory.getType() ||
            alignment(func, at) != alignment(part, i)))
      ++at;
    if (at == count) {
      func.addWorkgroupAttribution(memory.getType(), memory.getLoc());
      func.setWorkgroupAttributionAttr(
          at, StringAttr::get(func.getContext(), "llvm.align"),
          alignment(part, i));
    }
    taken.insert(at);
    mapping.map(memory, func.getWorkgroupAttributions()[at]);
  }
}

gpu::GPUFuncOp kvc::buildClusterKernel(ImplicitLocOpBuilder &b, StringRef name,
                                       ArrayRef<gpu::GPUFuncOp> parts) {
  llvm::StringMap<unsigned> places;
  SmallVector<Type> types;
  SmallVector<Attribute> names;
  for (gpu::GPUFuncOp part : parts)
    for (auto [i, type] : llvm::enumerate(part.getArgumentTypes()))
      if (places.try_emplace(nameOf(part, i), types.size()).second) {
        types.push_back(type);
        names.push_back(b.getStringAttr(nameOf(part, i)));
      }
  if (types.size() > KVC_MAX_KERNEL_ARGUMENTS)
    return {};
  gpu::GPUFuncOp first = parts.front();
  auto func = gpu::GPUFuncOp::create(b, name, b.getFunctionType(types, {}));
  for (StringRef attribute :
       {StringRef(gpu::GPUDialect::getKernelFuncAttrName()),
        StringRef("nvvm.minctasm")})
    func->setAttr(attribute, first->getAttr(attribute));
  func.setKnownBlockSizeAttr(first.getKnownBlockSizeAttr());
  func->setAttr(clustersAttr, b.getUnitAttr());
  func->setAttr("passthrough", b.getStrArrayAttr({clustersAttr})); // for LLVM
  func->setAttr("kvc.args", b.getArrayAttr(names));
  setPointerAttributes(func, parts);

  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&func.getBody().front());
  for (gpu::GPUFuncOp part : parts) {
    assert(part.getKnownBlockSizeAttr() == first.getKnownBlockSizeAttr() &&
           "kernels of one kind have as many threads");
    IRMapping mapping;
    // Behind the arguments of the function are those for its shared memory.
    for (BlockArgument arg :
         part.getArguments().take_front(part.getNumArguments()))
      mapping.map(arg, func.getArgument(
                           places.lookup(nameOf(part, arg.getArgNumber()))));
    mapSharedMemory(func, part, mapping);
    if (part != first)
      simt::SyncClusterOp::create(b);
    for (Operation &op : part.getBody().front().without_terminator())
      b.clone(op, mapping);
  }
  gpu::ReturnOp::create(b);
  return func;
}
