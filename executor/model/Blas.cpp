//===- Blas.cpp - kernels, memory and threads of OpenBLAS -----------------===//

#include "executor/model/Blas.h"

#include "runtime/base/Failure.h"

#include <cblas.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace kvc::rt;

/// Kernels that the processor has all instructions for; null: no better ones than SSE3.
static const char *kernelsOfProcessor() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return "Haswell";
#endif
  return nullptr;
}

void kvc::rt::useProcessorInBlas(char **argv) {
  constexpr const char *variable = "OPENBLAS_CORETYPE";
  // What it takes for a processor that it does not know.
  if (std::getenv(variable) ||
      openblas_get_corename() != std::string_view("Prescott"))
    return;
  // Who runs the loader by name has that as the process's program, with no loader below.
  if (getauxval(AT_BASE) == 0)
    return;
  // It chooses while it is loaded, and no more.
  if (const char *kernels = kernelsOfProcessor();
      kernels && setenv(variable, kernels, 1) == 0)
    execv("/proc/self/exe", argv); // else it goes on with what it has
}

bool kvc::rt::isAddressSpaceLimited() {
  rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// What OpenBLAS does itself before a fork; one without threads has it not.
extern "C" __attribute__((weak)) int blas_thread_shutdown_(void);

void kvc::rt::restBlasThreads() {
  // Where memory is short they may wait for it, and whoever ends them for them.
  if (blas_thread_shutdown_ && !isAddressSpaceLimited())
    blas_thread_shutdown_();
}

void kvc::rt::claimBlasMemory() {
  static bool isClaimed = false;
  if (isClaimed || !isAddressSpaceLimited())
    return;
  // A buffer for this thread, and for each of its own, which may not have got
  // theirs yet; the size is that of x86-64, the largest that it has.
  constexpr size_t buffer = size_t(128) << 20;
  int threads = openblas_get_num_threads();
  size_t bytes = size_t(threads) * (buffer + 4096);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw fail(KVC_INTERNAL_ERROR,
               "the address space (ulimit -v) must have room for the {} bytes "
               "that OpenBLAS works in with {} threads (OPENBLAS_NUM_THREADS), "
               "got less",
               bytes, threads);
  munmap(memory, bytes);
  // What it has got it keeps.
  constexpr int n = 32;
  std::vector<float> zeros(n * n);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f,
              zeros.data(), n, zeros.data(), n, 0.0f, zeros.data(), n);
  isClaimed = true;
}
