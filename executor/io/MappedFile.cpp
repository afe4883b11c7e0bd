//===- MappedFile.cpp - a file in memory, read only -----------------------===//

#include "executor/io/MappedFile.h"

#include "runtime/base/Failure.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kvc::rt;

MappedFile::MappedFile(const std::string &path) {
  // Without O_NONBLOCK a FIFO would wait here for somebody who writes.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat info;
  if (file < 0 || fstat(file, &info) != 0) {
    int code = errno;
    if (file >= 0)
      close(file);
    throw fail(KVC_BAD_ARGUMENT, "cannot read {}: {}", path,
               std::strerror(code));
  }
  if (!S_ISREG(info.st_mode)) {
    close(file);
    throw fail(KVC_BAD_ARGUMENT, "cannot read {}: not a regular file", path);
  }
  bytes = size_t(info.st_size);
  if (bytes) {
    void *mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) {
      int code = errno;
      close(file);
      throw fail(KVC_BAD_ARGUMENT, "cannot map {}: {}", path,
                 std::strerror(code));
    }
    memory = static_cast<const std::byte *>(mapped);
  }
  close(file);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : memory(std::exchange(other.memory, nullptr)),
      bytes(std::exchange(other.bytes, 0)) {}

MappedFile::~MappedFile() {
  if (memory)
    munmap(const_cast<std::byte *>(memory), bytes);
}

std::string kvc::rt::readText(const std::string &path) {
  MappedFile file(path);
  return {reinterpret_cast<const char *>(file.data()), file.size()};
}
