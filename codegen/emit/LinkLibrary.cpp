//===- LinkLibrary.cpp - an object into a shared library, by ld.lld -------===//
//
// In memory: what the linker reads, writes and says are files without a name.
// So no directory must have room for them, no name in TMPDIR can be one that
// the linker's own naming of temporary files stumbles over, and a stop in the
// middle leaves nothing.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/EmitObject.h"

#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;

static ErrorOr<std::string> findLinker() {
  for (const char *name : {"ld.lld-22", "ld.lld"})
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return path;
  return sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"});
}

namespace {

/// A file that the linker, which inherits it, sees as `path`.
class MemoryFile {
public:
  MemoryFile()
      : descriptor(memfd_create("kvc", 0)),
        path("/proc/self/fd/" + std::to_string(descriptor)) {}
  ~MemoryFile() {
    if (descriptor >= 0)
      close(descriptor);
  }
  MemoryFile(const MemoryFile &) = delete;

  Error write(StringRef text) {
    while (!text.empty()) {
      ssize_t count = sys::RetryAfterSignal(-1, ::write, descriptor,
                                            text.data(), text.size());
      if (count < 0)
        return createStringError("no memory for the linker: " +
                                 sys::StrError());
      text = text.drop_front(size_t(count));
    }
    return Error::success();
  }
  Expected<std::string> read() {
    auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                        /*RequiresNullTerminator=*/false);
    if (!buffer)
      return createStringError("cannot read what the linker wrote: " +
                               buffer.getError().message());
    return (*buffer)->getBuffer().str();
  }

  const int descriptor;
  const std::string path;
};

} // namespace

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
  ErrorOr<std::string> linker = findLinker();
  if (!linker)
    return createStringError(
        "a library needs the linker ld.lld, which was not found (package "
        "lld-22)");
  MemoryFile input, output, said;
  if (input.descriptor < 0 || output.descriptor < 0 || said.descriptor < 0)
    return createStringError("no files in memory for the linker: " +
                             sys::StrError());
  if (Error error = input.write(object))
    return std::move(error);
  std::string message;
  int code = sys::ExecuteAndWait(
      *linker, {*linker, "-shared", "--hash-style=gnu", input.path, "-o", "-"},
      std::nullopt, {"", StringRef(output.path), StringRef(said.path)}, 0, 0,
      &message);
  if (code != 0) {
    if (message.empty()) {
      Expected<std::string> text = said.read();
      message = reason(text ? *text : toString(text.takeError()));
    }
    return createStringError(*linker + " failed with code " + Twine(code) +
                             ": " + message);
  }
  Expected<std::string> library = output.read();
  if (!library)
    return library.takeError();
  if (library->empty())
    return createStringError(*linker + " must write a library, got 0 bytes");
  return sealLibrary(std::move(*library));
}
