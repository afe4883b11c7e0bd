//===- LinkerProgram.cpp - a run of ld.lld --------------------------------===//

#include "codegen/emit/Linker.h"
#include "codegen/emit/MemoryFile.h"

#include "llvm/Support/Errno.h"
#include "llvm/Support/Program.h"

using namespace llvm;

Expected<kvc::LinkerEnd> kvc::runLinker(const std::string &input,
                                        const std::string &output) {
  Expected<LinkerProgram> linker = findLinker();
  if (!linker)
    return linker.takeError();
  MemoryFile said;
  if (said.descriptor < 0)
    return createStringError("no files in memory for the linker: " +
                             sys::StrError());
  LinkerEnd end{linker->name, 0, ""};
  // By its standard output: a file that it opens itself it replaces.
  end.code = sys::ExecuteAndWait(
      linker->path,
      {linker->name, "-shared", "--hash-style=gnu", input, "-o", "-"},
      std::nullopt, {"", StringRef(output), StringRef(said.path)}, 0, 0,
      &end.said);
  if (end.said.empty()) {
    Expected<std::string> text = said.read();
    end.said = text ? *text : toString(text.takeError());
  }
  return end;
}
