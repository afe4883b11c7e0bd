//===- LinkLibrary.cpp - an object into a shared library, by ld.lld -------===//
//
// In memory: what the linker reads, writes and says are files without a name.
// So no directory must have room for them, no name in TMPDIR can be one that
// the linker's own naming of temporary files stumbles over, and a stop in the
// middle leaves nothing.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/EmitObject.h"
#include "codegen/emit/Linker.h"
#include "codegen/emit/MemoryFile.h"

#include "llvm/Support/Errno.h"

using namespace llvm;

/// The linker's reason on one line: the first that it calls an error.
static std::string reason(StringRef said) {
  SmallVector<StringRef> lines;
  said.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines)
    if (line.contains("error: "))
      return line.split("error: ").second.str();
  return lines.empty() ? "it gave no reason" : lines.front().str();
}

Expected<std::string> kvc::linkLibrary(StringRef object) {
  MemoryFile input, output;
  if (input.descriptor < 0 || output.descriptor < 0)
    return createStringError("no files in memory for the linker: " +
                             sys::StrError());
  if (Error error = input.write(object))
    return std::move(error);
  Expected<LinkerEnd> end = runLinker(input.path, output.path);
  if (!end)
    return end.takeError();
  if (end->code != 0)
    return createStringError(end->name + " failed with code " +
                             Twine(end->code) + ": " + reason(end->said));
  Expected<std::string> library = output.read();
  if (!library)
    return library.takeError();
  if (library->empty())
    return createStringError(end->name + " must write a library, got 0 bytes");
  return sealLibrary(std::move(*library));
}
