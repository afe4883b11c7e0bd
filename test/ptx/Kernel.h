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

/// What a launch of `text`'s kernel leaves of the numbers that its one parameter points to.
inline std::vector<int64_t> runText(const std::string &text,
                                    const ptx::LaunchShape &shape,
                                    std::vector<int64_t> numbers,
                                    uint64_t seed = 0) {
  ptx::Program program = ptx::parse(text);
  ptx::GlobalMemory memory;
  const size_t bytes = numbers.size() * sizeof(int64_t);
  void *results = memory.allocate(bytes);
  std::memcpy(results, numbers.data(), bytes);
  std::byte argument[8];
  std::memcpy(argument, &results, 8);
  ptx::run(program.kernels.at("kernel"), shape, argument, memory.view(), 1,
           seed);
  std::memcpy(numbers.data(), results, bytes);
  return numbers;
}

/// The results of `threads` threads of one block.
inline std::vector<int64_t>
runKernel(const std::string &body, uint32_t threads = 32, uint64_t seed = 0) {
  return runText(kernelText(body), {{1, 1, 1}, threads},
                 std::vector<int64_t>(threads, -1), seed);
}

/// What the machine says where run() ends in a failure; "" where it says nothing.
template <typename Run> std::string complaintOf(Run run) {
  try {
    run();
  } catch (const rt::Failure &failure) {
    return failure.what();
  }
  return "";
}
inline std::string complaint(const std::string &body, uint32_t threads = 32) {
  return complaintOf([&] { runKernel(body, threads); });
}

} // namespace kvc::test

#endif // KVC_TEST_PTX_KERNEL_H
