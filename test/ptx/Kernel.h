//===- Kernel.h - a few lines of PTX, run in a block ----------------------===//

#ifndef KVC_TEST_PTX_KERNEL_H
#define KVC_TEST_PTX_KERNEL_H

#include "ptx/Machine.h"
#include "ptx/Parser.h"
#include "runtime/base/Failure.h"

#include <cstring>
#include <string>
#include <vector>

namespace kvc::test {

/// A kernel around `body`, which leaves a thread's result in %d2. It has %tid.x
/// in %r0, 1 KiB of shared memory named `shared`, and in %d0 the address of the
/// results.
inline std::string kernelText(const std::string &body) {
  return ".version 7.8\n.target sm_80\n.address_size 64\n"
         ".visible .entry kernel(.param .u64 .ptr .align 1 results)\n{\n"
         ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>;\n"
         ".reg .b64 %d<8>; .shared .align 16 .b8 shared[1024];\n"
         "ld.param.b64 %d0, [results]; mov.u32 %r0, %tid.x; mov.b64 %d2, 0;\n"
         "mul.wide.u32 %d1, %r0, 8; add.s64 %d1, %d0, %d1;\n" +
         body + "\nst.global.b64 [%d1], %d2;\nret;\n}\n";
}

/// The results of `threads` threads of one block.
inline std::vector<int64_t>
runKernel(const std::string &body, uint32_t threads = 32, uint64_t seed = 0) {
  ptx::Program program = ptx::parse(kernelText(body));
  ptx::GlobalMemory memory;
  void *results = memory.allocate(threads * 8);
  std::byte argument[8];
  std::memcpy(argument, &results, 8);
  ptx::run(program.kernels.at("kernel"), {{1, 1, 1}, threads}, argument,
           memory.view(), 1, seed);
  std::vector<int64_t> values(threads);
  std::memcpy(values.data(), results, threads * 8);
  return values;
}

/// What the machine says of it; "" where it says nothing.
inline std::string complaint(const std::string &body, uint32_t threads = 32) {
  try {
    runKernel(body, threads);
  } catch (const rt::Failure &failure) {
    return failure.what();
  }
  return "";
}

} // namespace kvc::test

#endif // KVC_TEST_PTX_KERNEL_H
