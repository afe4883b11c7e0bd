//===- MemoryFile.cpp - a file without a name -----------------------------===//

#include "codegen/emit/MemoryFile.h"

#include "llvm/Support/Errno.h"
#include "llvm/Support/MemoryBuffer.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;
using namespace kvc;

MemoryFile::MemoryFile()
    : descriptor(memfd_create("kvc", 0)),
      path("/proc/self/fd/" + std::to_string(descriptor)) {}

MemoryFile::~MemoryFile() {
  if (descriptor >= 0)
    close(descriptor);
}

Error MemoryFile::write(StringRef text) {
  while (!text.empty()) {
    ssize_t count = sys::RetryAfterSignal(-1, ::write, descriptor, text.data(),
                                          text.size());
    if (count < 0)
      return createStringError("no memory for the linker: " + sys::StrError());
    text = text.drop_front(size_t(count));
  }
  return Error::success();
}

Expected<std::string> MemoryFile::read() {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError("cannot read what the linker wrote: " +
                             buffer.getError().message());
  return (*buffer)->getBuffer().str();
}
