//===- EmitObject.cpp - the artefact as an object file --------------------===//

#include "codegen/emit/EmitObject.h"

#include "codegen/emit/EmitPTX.h"
#include "codegen/emit/HostProcessors.h"
#include "codegen/emit/LLVMTarget.h"
#include "codegen/emit/Manifest.h"
#include "codegen/Pipelines.h"
#include "kvc/artifact.h"
#include "kvc/simt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace kvc;

static gpu::GPUModuleOp targetOf(ModuleOp module) {
  return *module.getOps<gpu::GPUModuleOp>().begin();
}

std::string kvc::manifestOf(ModuleOp module) {
  return targetOf(module)
      ->getAttrOfType<StringAttr>(manifestAttr)
      .getValue()
      .str();
}

namespace {

/// A host kernel, the functions of its two forms.
struct HostKernel {
  std::string thread, warp; // warp: empty where there is none
  int64_t sharedBytes = 0;
  bool barriers = false;
};

/// The host kernels as LLVM IR.
struct HostModule {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;
  SmallVector<HostKernel> kernels;
  /// What warps' functions need of the processor.
  kvc_host_processor processor = KVC_ANY_PROCESSOR;
  /// Those that have functions of their own.
  SmallVector<const HostProcessor *> others;
};

/// True where LLVM's fast allocator of registers, which takes a quarter off the time to
/// compile, leaves each function room on a thread's stack: every value may have a place of
/// its own there.
bool isForFastRegisters(const llvm::Module &module) {
  const llvm::DataLayout &layout = module.getDataLayout();
  return llvm::all_of(module, [&](const llvm::Function &function) {
    uint64_t bytes = 0;
    for (const llvm::Instruction &op : llvm::instructions(function)) {
      if (op.getType()->isSized())
        bytes += std::max<uint64_t>(layout.getTypeAllocSize(op.getType()), 8);
      if (auto *own = llvm::dyn_cast<llvm::AllocaInst>(&op))
        bytes += own->getAllocationSize(layout)->getFixedValue();
    }
    return bytes <= KVC_SIMT_STACK_BYTES;
  });
}

llvm::Error lowerHost(ModuleOp module, const ObjectOptions &options,
                      HostModule &host) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // as for PTX: level gpu has been verified
  buildHostPipeline(manager, options.warps);
  if (failed(manager.run(*copy)))
    return llvm::createStringError("lowering to the host failed");
  llvm::StringMap<Operation *> warps;
  for (Operation &op : copy->getOps())
    if (auto of = op.getAttrOfType<StringAttr>("kvc.warp_of"))
      warps[of.getValue()] = &op;
  for (Operation &op : copy->getOps())
    if (auto bytes = op.getAttrOfType<IntegerAttr>("kvc.shared_bytes")) {
      HostKernel kernel{SymbolTable::getSymbolName(&op).str(), "",
                        bytes.getInt()};
      if (Operation *warp = warps.lookup(kernel.thread)) {
        kernel.warp = SymbolTable::getSymbolName(warp).str();
        kernel.barriers = warp->hasAttr("kvc.barriers");
      }
      host.kernels.push_back(kernel);
    }
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  llvm::Triple triple(options.hostTriple.empty()
                          ? llvm::sys::getDefaultTargetTriple()
                          : llvm::Triple::normalize(options.hostTriple));
  SmallVector<StringRef> names;
  StringRef(options.hostCPU).split(names, ',');
  std::string cpu = names.front().str();
  bool named = cpu != "generic" || !triple.isX86();
  for (StringRef name : ArrayRef(names).drop_front()) {
    const HostProcessor *other = findProcessor(name);
    if (named || !other)
      return llvm::createStringError(
          "host-cpu takes x86-64-v4 behind generic of x86-64, got '" +
          llvm::Twine(name) + "' behind '" + cpu + "' of " + triple.str());
    host.others.push_back(other);
  }
  if (cpu == "native")
    cpu = llvm::sys::getHostCPUName().str();
  if (!named)
    cpu = "x86-64";
  auto machine = makeTargetMachine(triple, cpu);
  if (!machine)
    return machine.takeError();
  host.machine = std::move(*machine);
  host.module = translateModuleToLLVMIR(*copy, host.context, "kvc");
  if (!host.module)
    return llvm::createStringError("translation to LLVM IR failed");
  host.module->setTargetTriple(triple);
  host.module->setDataLayout(host.machine->createDataLayout());
  // Threads alone are for who compiles often and runs little.
  if (!options.warps && isForFastRegisters(*host.module))
    host.machine->setOptLevel(llvm::CodeGenOptLevel::None);
  host.processor = named ? KVC_ANY_PROCESSOR : usualProcessor.needs;
  llvm::StringSet<> threads;
  for (const HostKernel &kernel : host.kernels)
    threads.insert(kernel.thread);
  SmallVector<llvm::Function *> ofWarps;
  for (llvm::Function &function : *host.module) {
    if (function.isDeclaration() || threads.contains(function.getName()))
      continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    if (!named)
      function.addFnAttr("target-cpu", usualProcessor.name);
    ofWarps.push_back(&function);
  }
  for (const HostProcessor *other : host.others)
    copyFor(*other, *host.module, ofWarps);
  return llvm::Error::success();
}

/// Builds the constants of kvc/artifact.h.
class ArtifactBuilder {
public:
  explicit ArtifactBuilder(llvm::Module &module)
      : module(module), context(module.getContext()),
        pointer(llvm::PointerType::get(context, 0)),
        i32(llvm::Type::getInt32Ty(context)),
        i64(llvm::Type::getInt64Ty(context)) {}

  llvm::Constant *text(StringRef string) {
    return constant(llvm::ConstantDataArray::getString(context, string));
  }
  llvm::Constant *none() { return llvm::ConstantPointerNull::get(pointer); }
  llvm::Constant *number(uint64_t n) { return llvm::ConstantInt::get(i64, n); }
  llvm::Constant *structure(ArrayRef<llvm::Constant *> fields) {
    return llvm::ConstantStruct::getAnon(context, fields);
  }
  llvm::Constant *array(ArrayRef<llvm::Constant *> items) {
    if (items.empty())
      return llvm::ConstantPointerNull::get(pointer);
    return constant(llvm::ConstantArray::get(
        llvm::ArrayType::get(items.front()->getType(), items.size()), items));
  }

  llvm::GlobalVariable *artifact(StringRef name, StringRef manifest,
                                 ArrayRef<llvm::Constant *> images,
                                 ArrayRef<llvm::Constant *> kernels) {
    SmallString<8> magic(KVC_ARTIFACT_MAGIC);
    magic.resize(7);
    llvm::Constant *value =
        structure({llvm::ConstantDataArray::getString(context, magic),
                   llvm::ConstantInt::get(i32, KVC_ARTIFACT_VERSION),
                   llvm::ConstantInt::get(i32, images.size()),
                   number(kernels.size()), text(manifest),
                   number(manifest.size()), array(images), array(kernels)});
    return new llvm::GlobalVariable(module, value->getType(), true,
                                    llvm::GlobalValue::ExternalLinkage, value,
                                    name);
  }

private:
  llvm::Constant *constant(llvm::Constant *value) {
    auto *global =
        new llvm::GlobalVariable(module, value->getType(), true,
                                 llvm::GlobalValue::PrivateLinkage, value);
    return global;
  }

  llvm::Module &module;
  llvm::LLVMContext &context;
  llvm::PointerType *pointer;
  llvm::Type *i32, *i64;
};

} // namespace

llvm::Expected<std::string> kvc::emitHostIR(ModuleOp module,
                                            const ObjectOptions &options) {
  HostModule host;
  if (llvm::Error error = lowerHost(module, options, host))
    return error;
  optimize(*host.module, *host.machine, options.quick);
  std::string text;
  llvm::raw_string_ostream(text) << *host.module;
  return text;
}

llvm::Expected<std::string> kvc::emitObject(ModuleOp module,
                                            const ObjectOptions &options) {
  HostModule host;
  if (llvm::Error error = lowerHost(module, options, host))
    return error;
  ArtifactBuilder builder(*host.module);
  SmallVector<llvm::Constant *> images, kernels;
  auto made = emitPTXImages(module, options.chips);
  if (!made)
    return made.takeError();
  for (const PTXImage &image : *made)
    images.push_back(
        builder.structure({builder.text(image.chip), builder.text(image.text),
                           builder.number(image.text.size())}));
  for (const HostKernel &kernel : host.kernels) {
    auto function = [&](StringRef name, int64_t bytes) -> llvm::Constant * {
      if (name.empty())
        return builder.none();
      llvm::Function *entry = host.module->getFunction(name);
      entry->setLinkage(llvm::GlobalValue::InternalLinkage);
      entry->addFnAttr("warn-stack-size", std::to_string(bytes));
      return entry;
    };
    // Where warps run the kernel, and where no kernel was to be made for them, the
    // other form is the judge's: soon compiled comes before soon run.
    if (!kernel.warp.empty() || !options.warps)
      for (auto attribute :
           {llvm::Attribute::OptimizeNone, llvm::Attribute::NoInline})
        host.module->getFunction(kernel.thread)->addFnAttr(attribute);
    auto add = [&](const std::string &warp, kvc_host_processor processor) {
      kernels.push_back(
          builder.structure({builder.text(kernel.thread),
                             function(kernel.thread, KVC_SIMT_STACK_BYTES),
                             builder.number(kernel.sharedBytes),
                             function(warp, KVC_SIMT_WARP_STACK_BYTES),
                             builder.number(processor)}));
    };
    add(kernel.warp, host.processor);
    for (const HostProcessor *other : host.others)
      if (!kernel.warp.empty())
        add(kernel.warp + other->suffix.str(), other->needs);
  }
  std::string symbol = ("kvc_policy_" + targetOf(module).getName()).str();
  llvm::GlobalVariable *artifact =
      builder.artifact(symbol, manifestOf(module), images, kernels);
  if (options.library)
    llvm::GlobalAlias::create("kvc_artifact", artifact);
  optimize(*host.module, *host.machine, options.quick);
  return emit(*host.module, *host.machine, llvm::CodeGenFileType::ObjectFile);
}

std::string kvc::emitHeader(ModuleOp module) {
  std::string name = targetOf(module).getName().str();
  std::string guard = "KVC_POLICY_" + StringRef(name).upper() + "_H";
  return "/* The policy '" + name +
         "', compiled by kvc-opt --emit=object. */\n#ifndef " + guard +
         "\n#define " + guard +
         "\n\n#include \"kvc/artifact.h\"\n\n#ifdef __cplusplus\nextern \"C\" "
         "{\n#endif\n\n/* Pass its address to kvc_module_open. */\nextern "
         "const "
         "kvc_artifact kvc_policy_" +
         name + ";\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* " + guard +
         " */\n";
}
