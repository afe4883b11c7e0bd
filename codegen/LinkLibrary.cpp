//===- LinkLibrary.cpp - an object into a shared library, by ld.lld -------===//

#include "codegen/EmitObject.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

using namespace llvm;

static ErrorOr<std::string> findLinker() {
  for (const char *name : {"ld.lld-22", "ld.lld", "ld"})
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return path;
  return sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"});
}

/// Writes `text` to a temporary file; its path or an error.
static Expected<std::string> writeTemporary(StringRef text) {
  int descriptor;
  SmallString<128> path;
  if (std::error_code code =
          sys::fs::createTemporaryFile("kvc", "o", descriptor, path))
    return createStringError("cannot make a temporary file: " + code.message());
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << text;
  stream.close();
  if (stream.has_error()) {
    std::error_code code = stream.error();
    stream.clear_error();
    sys::fs::remove(path);
    return createStringError("cannot write " + path + ": " + code.message());
  }
  return path.str().str();
}

Error kvc::linkLibrary(StringRef object, StringRef path) {
  ErrorOr<std::string> linker = findLinker();
  if (!linker)
    return createStringError(
        "a library needs the linker ld.lld, which was not found (package "
        "lld-22)");
  Expected<std::string> input = writeTemporary(object);
  if (!input)
    return input.takeError();
  // The linker writes beside the target; the last step puts it in place.
  std::string half = (path + ".part").str();
  std::string message;
  int code = sys::ExecuteAndWait(
      *linker, {*linker, "-shared", "--hash-style=gnu", *input, "-o", half},
      std::nullopt, {}, 0, 0, &message);
  sys::fs::remove(*input);
  if (code != 0) {
    sys::fs::remove(half);
    return createStringError("'" + *linker + " -shared -o " + path +
                             "' failed with code " + Twine(code) +
                             (message.empty() ? "" : ": " + message));
  }
  if (std::error_code error = sys::fs::rename(half, path)) {
    sys::fs::remove(half);
    return createStringError("cannot write " + path + ": " + error.message());
  }
  return Error::success();
}
