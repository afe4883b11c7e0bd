//===- HostProcessors.cpp -------------------------------------------------===//

#include "codegen/emit/HostProcessors.h"

#include "llvm/Transforms/Utils/Cloning.h"

using namespace kvc;

const HostProcessor kvc::usualProcessor = {"x86-64-v3", "", KVC_X86_64_V3};

static const HostProcessor others[] = {
    {"x86-64-v4", ".v4", KVC_X86_64_V4},
};

const HostProcessor *kvc::findProcessor(llvm::StringRef name) {
  for (const HostProcessor &other : others)
    if (other.name == name)
      return &other;
  return nullptr;
}

void kvc::copyFor(const HostProcessor &processor, llvm::Module &module,
                  llvm::ArrayRef<llvm::Function *> functions) {
  // All names first: calls among them become calls among the copies.
  llvm::ValueToValueMapTy copies;
  for (llvm::Function *function : functions)
    copies[function] = llvm::Function::Create(
        function->getFunctionType(), function->getLinkage(),
        function->getName() + processor.suffix, module);
  for (llvm::Function *function : functions) {
    auto *copy = llvm::cast<llvm::Function>(copies[function]);
    for (auto [from, to] : llvm::zip(function->args(), copy->args()))
      copies[&from] = &to;
    llvm::SmallVector<llvm::ReturnInst *> returns;
    llvm::CloneFunctionInto(copy, function, copies,
                            llvm::CloneFunctionChangeType::LocalChangesOnly,
                            returns);
    copy->addFnAttr("target-cpu", processor.name);
    // LLVM would take vectors of 256 bits, as the first processors with longer ones ran
    // slower by them; these kernels are hardly anything but vectors.
    copy->addFnAttr("prefer-vector-width", "512");
  }
}
