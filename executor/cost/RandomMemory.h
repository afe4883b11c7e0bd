//===- RandomMemory.h - layers of random numbers, for profiles ------------===//

#ifndef KVC_EXECUTOR_COST_RANDOMMEMORY_H
#define KVC_EXECUTOR_COST_RANDOMMEMORY_H

#include "executor/eviction/Arena.h"

#include <cstdint>

namespace kvc::rt {

/// [rows, width] elements, normally distributed.
void *randomRows(Arena &arena, uint64_t rows, size_t width, kvc_dtype dtype,
                 float deviation = 1);

/// A table of all pages, in no order.
std::vector<int32_t> shuffledPages(uint32_t pages);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_RANDOMMEMORY_H
