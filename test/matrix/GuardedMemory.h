//===- GuardedMemory.h - memory that ends where nobody may read -----------===//

#ifndef KVC_TEST_MATRIX_GUARDEDMEMORY_H
#define KVC_TEST_MATRIX_GUARDEDMEMORY_H

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

#include <sys/mman.h>
#include <unistd.h>

namespace kvc::test {

/// Bytes between two pages without access: they end where the second begins, or
/// begin where the first ends. An access there ends the process.
class GuardedMemory {
public:
  enum class Edge { Front, Back };

  GuardedMemory(size_t bytes, Edge edge) : bytes(bytes) {
    auto page = size_t(sysconf(_SC_PAGESIZE));
    size_t inner = (bytes + page - 1) / page * page;
    size = inner + 2 * page;
    memory = static_cast<std::byte *>(
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED ||
        mprotect(memory + page, inner, PROT_READ | PROT_WRITE))
      throw std::bad_alloc();
    data = memory + page + (edge == Edge::Back ? inner - bytes : 0);
  }
  /// A copy.
  GuardedMemory(std::span<const std::byte> source, Edge edge)
      : GuardedMemory(source.size(), edge) {
    if (!source.empty())
      std::memcpy(data, source.data(), source.size());
  }
  ~GuardedMemory() { munmap(memory, size); }
  GuardedMemory(const GuardedMemory &) = delete;

  /// Of both pages or the memory between them.
  bool holds(const void *address) const {
    auto *byte = static_cast<const std::byte *>(address);
    return memory <= byte && byte < memory + size;
  }

  std::byte *data;
  const size_t bytes;

private:
  std::byte *memory;
  size_t size;
};

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_GUARDEDMEMORY_H
