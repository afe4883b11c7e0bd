//===- Machine.cpp --------------------------------------------------------===//

#include "ptx/Machine.h"

#include "emulator/Blocks.h"
#include "ptx/Cluster.h"
#include "runtime/base/Failure.h"
#include "runtime/device/Device.h"

using namespace kvc;
using rt::fail;

void kvc::ptx::run(const Kernel &kernel, const LaunchShape &shape,
                   std::span<const std::byte> arguments,
                   const GlobalView &memory, unsigned threads, uint64_t seed) {
  if (!shape.block || shape.block > kernel.maxThreads)
    throw fail(KVC_INTERNAL_ERROR,
               "kernel '{}' has blocks of 1 to {} threads, got {}", kernel.name,
               kernel.maxThreads, shape.block);
  if (kernel.sharedBytes + uint64_t(shape.sharedBytes) > rt::mostSharedBytes)
    throw fail(KVC_INTERNAL_ERROR,
               "a block has at most {} bytes of shared memory, kernel '{}' has "
               "{} and its launch gives {}",
               rt::mostSharedBytes, kernel.name, kernel.sharedBytes,
               shape.sharedBytes);
  if (arguments.size() != kernel.parameterBytes)
    throw fail(KVC_INTERNAL_ERROR,
               "kernel '{}' has {} bytes of parameters, got {}", kernel.name,
               kernel.parameterBytes, arguments.size());
  rt::runBlocks(clustersOf(kernel, shape), threads, [&]() -> rt::RunBlock {
    return [&](uint32_t x, uint32_t y, uint32_t z) {
      Cluster(kernel, shape, arguments, memory, {x, y, z}, seed).run();
    };
  });
}
