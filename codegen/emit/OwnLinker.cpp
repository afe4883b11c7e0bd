//===- OwnLinker.cpp - ld.lld, linked into this program -------------------===//
//
// For wheels: a machine with Python alone has no linker. The program runs itself by the
// linker's name, and not the linker's function: lld ends its process where it fails, and
// writes to a standard output that is ours.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/Linker.h"

#include "lld/Common/Driver.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace llvm;

// lld can optimise bitcode, for every processor that LLVM knows. There is none to link
// here, so what that would take is left out: it is half of LLVM.
#define KVC_UNUSED(Processor)                                                  \
  extern "C" void LLVMInitialize##Processor##TargetInfo() {}                   \
  extern "C" void LLVMInitialize##Processor##Target() {}                       \
  extern "C" void LLVMInitialize##Processor##TargetMC() {}                     \
  extern "C" void LLVMInitialize##Processor##AsmPrinter() {}                   \
  extern "C" void LLVMInitialize##Processor##AsmParser() {}
#include "codegen/emit/UnusedTargets.def"
PassPluginLibraryInfo getPollyPluginInfo() { return {}; }

static constexpr StringRef linkerName = "ld.lld";

Expected<kvc::LinkerProgram> kvc::findLinker() {
  return LinkerProgram{"/proc/self/exe", linkerName.str()};
}

std::optional<int> kvc::runAsLinker(int argc, char **argv) {
  if (argc == 0 || argv[0] != linkerName)
    return std::nullopt;
  return lld::lldMain({argv, size_t(argc)}, outs(), errs(),
                      {{lld::Gnu, &lld::elf::link}})
      .retCode;
}
