//===- Blas.h - kernels, memory and threads of OpenBLAS -------------------===//

#ifndef KVC_EXECUTOR_MODEL_BLAS_H
#define KVC_EXECUTOR_MODEL_BLAS_H

namespace kvc::rt {

/// To be called first in main. An OpenBLAS that is older than the processor takes
/// kernels without AVX, which are several times slower. When it has, the program
/// begins again with OPENBLAS_CORETYPE saying what the processor can do. Does nothing
/// where the caller has set that.
void useProcessorInBlas(char **argv);

/// To be called before the first product. Where OpenBLAS cannot get the memory
/// that it works in, it tries again for ever; this throws Failure instead. Does
/// nothing where the address space is not limited.
void claimBlasMemory();

/// To be called early in main: ends the threads that OpenBLAS has begun when it was
/// loaded, which look for work for a while, on cores that kernels have use for. The first
/// product begins them again.
void restBlasThreads();

/// True where the end of the program may wait for a thread of OpenBLAS that
/// still tries to get memory.
bool isAddressSpaceLimited();

} // namespace kvc::rt

#endif // KVC_EXECUTOR_MODEL_BLAS_H
