//===- MachineLinker.cpp - the ld.lld that the machine has ----------------===//

#include "codegen/emit/Linker.h"

#include "llvm/Support/Program.h"

using namespace llvm;

static ErrorOr<std::string> findProgram() {
  for (const char *name : {"ld.lld-22", "ld.lld"})
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return path;
  return sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"});
}

Expected<kvc::LinkerProgram> kvc::findLinker() {
  ErrorOr<std::string> path = findProgram();
  if (!path)
    return createStringError(
        "a library needs the linker ld.lld, which was not found (package "
        "lld-22)");
  return LinkerProgram{*path, *path};
}

std::optional<int> kvc::runAsLinker(int, char **) { return std::nullopt; }
