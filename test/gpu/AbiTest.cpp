// What CudaDriver.h and CublasLt.h write out, compared with NVIDIA's headers.

#include "executor/cuda/CublasLt.h"
#include "runtime/device/CudaDriver.h"
#include "runtime/kernels/TensorMap.h"

#include <cublasLt.h>
#include <cuda.h>

#include <gtest/gtest.h>

using Ours = kvc::gpu::CublasLt;
namespace rt = kvc::rt;

static_assert(Ours::f32 == CUDA_R_32F && Ours::f16 == CUDA_R_16F &&
              Ours::bf16 == CUDA_R_16BF);
static_assert(Ours::computeF32 == CUBLAS_COMPUTE_32F);
static_assert(Ours::transposed == CUBLAS_OP_T);
static_assert(Ours::transposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(Ours::maxWorkspaceBytes ==
              CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(sizeof(Ours::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Ours::Advice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Ours::Advice, workspaceBytes) ==
                  offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
              offsetof(Ours::Advice, state) ==
                  offsetof(cublasLtMatmulHeuristicResult_t, state));

static_assert(rt::cudaMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              rt::cudaMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              rt::cudaMultiprocessors ==
                  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              rt::cudaClockKilohertz == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(rt::cudaNonBlocking == CU_STREAM_NON_BLOCKING &&
              rt::cudaDisableTiming == CU_EVENT_DISABLE_TIMING &&
              rt::cudaReleaseThreshold == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
static_assert(rt::cudaCaptureThread == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(rt::cudaErrorLog == CU_JIT_ERROR_LOG_BUFFER &&
              rt::cudaErrorLogBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(sizeof(rt::CudaCopy2D) == sizeof(CUDA_MEMCPY2D));
static_assert(
    offsetof(rt::CudaCopy2D, from) == offsetof(CUDA_MEMCPY2D, srcDevice) &&
    offsetof(rt::CudaCopy2D, fromPitch) == offsetof(CUDA_MEMCPY2D, srcPitch) &&
    offsetof(rt::CudaCopy2D, toKind) ==
        offsetof(CUDA_MEMCPY2D, dstMemoryType) &&
    offsetof(rt::CudaCopy2D, to) == offsetof(CUDA_MEMCPY2D, dstDevice) &&
    offsetof(rt::CudaCopy2D, toPitch) == offsetof(CUDA_MEMCPY2D, dstPitch) &&
    offsetof(rt::CudaCopy2D, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(int(CU_MEMORYTYPE_DEVICE) == 2);
#if CUDA_VERSION >=                                                            \
    12000 // that has tensor maps, at multiples of 64 bytes until 13
static_assert(sizeof(kvc::gpu::TensorMap) == sizeof(CUtensorMap) &&
              alignof(kvc::gpu::TensorMap) == 128 &&
              128 % alignof(CUtensorMap) == 0);
static_assert(rt::cudaTensor16Bits == CU_TENSOR_MAP_DATA_TYPE_UINT16 &&
              rt::cudaTensorSwizzle128 == CU_TENSOR_MAP_SWIZZLE_128B &&
              rt::cudaTensorL2At256 == CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
              int(CU_TENSOR_MAP_INTERLEAVE_NONE) == 0 &&
              int(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == 0);
#endif

/// Types of parameters, up to what a pointer points to: all that a call needs.
template <typename T> constexpr size_t passedAs = sizeof(T);
template <typename T>
  requires std::is_pointer_v<T>
constexpr size_t passedAs<T> = 1000;

template <typename A, typename B> constexpr bool sameCall = false;
template <typename R, typename... A, typename S, typename... B>
constexpr bool sameCall<R (*)(A...), S (*)(B...)> =
    sizeof...(A) == sizeof...(B) && passedAs<R> == passedAs<S> && [] {
      size_t a[] = {passedAs<A>..., 0}, b[] = {passedAs<B>..., 0};
      for (size_t i = 0; i < sizeof...(A); ++i)
        if (a[i] != b[i])
          return false;
      return true;
    }();

TEST(CudaAbi, FunctionsTakeWhatTheHeadersSay) {
#define KVC_COMPARE(name, ...)                                                 \
  static_assert(sameCall<decltype(Ours::name), decltype(&::name)>, #name);
  KVC_CUBLASLT_SYMBOLS(KVC_COMPARE)
#if CUDA_VERSION >= 12000
#define KVC_COMPARE_DRIVER(name, ...)                                          \
  static_assert(sameCall<decltype(rt::CudaDriver::name), decltype(&::name)>,   \
                #name);
  // Of the others the headers have newer versions under the same names.
  KVC_CUDA_NEW_SYMBOLS(KVC_COMPARE_DRIVER)
#endif
}
