//===- Allocations.h - how often a test program has allocated -------------===//

#ifndef KVC_TEST_RUNTIME_ALLOCATIONS_H
#define KVC_TEST_RUNTIME_ALLOCATIONS_H

#include <atomic>
#include <cstddef>

namespace kvc::test {

/// Calls of operator new so far, of every thread.
extern std::atomic<size_t> allocations;

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_ALLOCATIONS_H
