//===- Allocations.cpp - how often a test program has allocated -----------===//

#include "test/runtime/Allocations.h"

#include <cstdlib>
#include <new>

std::atomic<size_t> kvc::test::allocations = 0;

void *operator new(size_t bytes) {
  ++kvc::test::allocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
