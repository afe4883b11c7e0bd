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

/// A copy of some bytes between two pages without access: it ends where the second
/// begins, or begins where the first ends. An access there ends the process.
class GuardedMemory {
public:
  enum class Edge { Front, Back };

  GuardedMemory(std::span<const std::byte> bytes, Edge edge) {
    auto page = size_t(sysconf(_SC_PAGESIZE));
    size_t inner = (bytes.size() + page - 1) / page * page;
    size = inner + 2 * page;
    memory = static_cast<std::byte *>(
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED ||
        mprotect(memory + page, inner, PROT_READ | PROT_WRITE))
      throw std::bad_alloc();
    data = memory + page + (edge == Edge::Back ? inner - bytes.size() : 0);
    std::memcpy(data, bytes.data(), bytes.size());
  }
  ~GuardedMemory() { munmap(memory, size); }
  GuardedMemory(const GuardedMemory &) = delete;

  std::byte *data;

private:
  std::byte *memory;
  size_t size;
};

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_GUARDEDMEMORY_H
