//===- CudaDriver.h - the driver library, opened at run time --------------===//
//
// No CUDA header is needed: the few types and values of the driver's ABI that
// we use are written out here.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_DEVICE_CUDADRIVER_H
#define KVC_RUNTIME_DEVICE_CUDADRIVER_H

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace kvc::gpu {
struct TensorMap; // CUtensorMap
}

namespace kvc::rt {

struct BoxedTensor; // BoxedTensor.h

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUmemoryPool = struct CUmemPoolHandle_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;

/// CUDA_MEMCPY2D_v2, of which we use device memory only.
struct CudaCopy2D {
  size_t fromX = 0, fromY = 0;
  int fromKind = 2; // device
  const void *fromHost = nullptr;
  CUdeviceptr from = 0;
  void *fromArray = nullptr;
  size_t fromPitch = 0;
  size_t toX = 0, toY = 0;
  int toKind = 2;
  void *toHost = nullptr;
  CUdeviceptr to = 0;
  void *toArray = nullptr;
  size_t toPitch = 0;
  size_t width = 0, height = 0; // bytes, rows
};

/// CUlaunchAttribute, of which we use the one that lets a kernel begin early.
struct alignas(8) CudaLaunchAttribute {
  int id = 6; // programmatic stream serialization
  int unused = 0;
  int allowed = 1;
  char rest[60] = {}; // of the union of values
};
static_assert(sizeof(CudaLaunchAttribute) == 72);

/// CUlaunchConfig.
struct CudaLaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned sharedBytes = 0;
  CUstream stream = nullptr;
  const CudaLaunchAttribute *attributes = nullptr;
  unsigned attributeCount = 0;
};
static_assert(sizeof(CudaLaunchConfig) == 56);

/// Tables of symbols: name in the library, type.
struct CudaDriver {
#define KVC_CUDA_SYMBOLS(X)                                                    \
  X(cuInit, CUresult (*)(unsigned))                                            \
  X(cuDriverGetVersion, CUresult (*)(int *))                                   \
  X(cuDeviceGetCount, CUresult (*)(int *))                                     \
  X(cuDeviceGet, CUresult (*)(CUdevice *, int))                                \
  X(cuDeviceGetName, CUresult (*)(char *, int, CUdevice))                      \
  X(cuDeviceGetAttribute, CUresult (*)(int *, int, CUdevice))                  \
  X(cuDevicePrimaryCtxRetain, CUresult (*)(CUcontext *, CUdevice))             \
  X(cuDevicePrimaryCtxRelease_v2, CUresult (*)(CUdevice))                      \
  X(cuCtxPushCurrent_v2, CUresult (*)(CUcontext))                              \
  X(cuCtxPopCurrent_v2, CUresult (*)(CUcontext *))                             \
  X(cuCtxSynchronize, CUresult (*)())                                          \
  X(cuModuleLoadDataEx,                                                        \
    CUresult (*)(CUmodule *, const void *, unsigned, int *, void **))          \
  X(cuModuleUnload, CUresult (*)(CUmodule))                                    \
  X(cuModuleGetFunction, CUresult (*)(CUfunction *, CUmodule, const char *))   \
  X(cuFuncSetAttribute, CUresult (*)(CUfunction, int, int))                    \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                               \
    CUresult (*)(int *, CUfunction, int, size_t))                              \
  X(cuLaunchKernel,                                                            \
    CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, \
                 unsigned, unsigned, CUstream, void **, void **))              \
  X(cuMemAlloc_v2, CUresult (*)(CUdeviceptr *, size_t))                        \
  X(cuMemFree_v2, CUresult (*)(CUdeviceptr))                                   \
  X(cuMemcpyHtoD_v2, CUresult (*)(CUdeviceptr, const void *, size_t))          \
  X(cuMemcpyDtoH_v2, CUresult (*)(void *, CUdeviceptr, size_t))                \
  X(cuMemAllocAsync, CUresult (*)(CUdeviceptr *, size_t, CUstream))            \
  X(cuMemFreeAsync, CUresult (*)(CUdeviceptr, CUstream))                       \
  X(cuDeviceGetDefaultMemPool, CUresult (*)(CUmemoryPool *, CUdevice))         \
  X(cuMemPoolSetAttribute, CUresult (*)(CUmemoryPool, int, void *))            \
  X(cuMemHostAlloc, CUresult (*)(void **, size_t, unsigned))                   \
  X(cuMemFreeHost, CUresult (*)(void *))                                       \
  X(cuMemcpyHtoDAsync_v2,                                                      \
    CUresult (*)(CUdeviceptr, const void *, size_t, CUstream))                 \
  X(cuMemcpyDtoHAsync_v2, CUresult (*)(void *, CUdeviceptr, size_t, CUstream)) \
  X(cuMemcpyDtoDAsync_v2,                                                      \
    CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream))                  \
  X(cuMemcpy2DAsync_v2, CUresult (*)(const CudaCopy2D *, CUstream))            \
  X(cuMemsetD8Async,                                                           \
    CUresult (*)(CUdeviceptr, unsigned char, size_t, CUstream))                \
  X(cuStreamCreate, CUresult (*)(CUstream *, unsigned))                        \
  X(cuStreamSynchronize, CUresult (*)(CUstream))                               \
  X(cuStreamDestroy_v2, CUresult (*)(CUstream))                                \
  X(cuEventCreate, CUresult (*)(CUevent *, unsigned))                          \
  X(cuEventRecord, CUresult (*)(CUevent, CUstream))                            \
  X(cuEventSynchronize, CUresult (*)(CUevent))                                 \
  X(cuEventElapsedTime, CUresult (*)(float *, CUevent, CUevent))               \
  X(cuEventDestroy_v2, CUresult (*)(CUevent))                                  \
  X(cuStreamBeginCapture_v2, CUresult (*)(CUstream, int))                      \
  X(cuStreamEndCapture, CUresult (*)(CUstream, CUgraph *))                     \
  X(cuGraphInstantiateWithFlags,                                               \
    CUresult (*)(CUgraphExec *, CUgraph, unsigned long long))                  \
  X(cuGraphLaunch, CUresult (*)(CUgraphExec, CUstream))                        \
  X(cuGraphDestroy, CUresult (*)(CUgraph))                                     \
  X(cuGraphExecDestroy, CUresult (*)(CUgraphExec))                             \
  X(cuMemsetD8_v2, CUresult (*)(CUdeviceptr, unsigned char, size_t))           \
  X(cuGetErrorName, CUresult (*)(CUresult, const char **))                     \
  X(cuGetErrorString, CUresult (*)(CUresult, const char **))
// Null where the driver is older than they are.
#define KVC_CUDA_NEW_SYMBOLS(X)                                                \
  X(cuTensorMapEncodeTiled,                                                    \
    CUresult (*)(kvc::gpu::TensorMap *, int, uint32_t, void *,                 \
                 const uint64_t *, const uint64_t *, const uint32_t *,         \
                 const uint32_t *, int, int, int, int))                        \
  X(cuLaunchKernelEx,                                                          \
    CUresult (*)(const CudaLaunchConfig *, CUfunction, void **, void **))
#define KVC_CUDA_DECLARE(name, ...)                                            \
  std::type_identity_t<__VA_ARGS__> name = nullptr;
  KVC_CUDA_SYMBOLS(KVC_CUDA_DECLARE)
  KVC_CUDA_NEW_SYMBOLS(KVC_CUDA_DECLARE)
#undef KVC_CUDA_DECLARE

  /// The opened and initialised driver. Throws Failure (KVC_DRIVER_ERROR) that
  /// says what is missing.
  static const CudaDriver &get();
  /// Throws unless `result` is success; the driver's own words are in the
  /// error. Allocates nothing on success: every launch goes through it.
  void check(CUresult result, std::string_view call) const;
  /// Device::mapTensor.
  bool mapTensor(const BoxedTensor &tensor, gpu::TensorMap &map) const;
};

// cuDeviceGetAttribute
constexpr int cudaMajor = 75, cudaMinor = 76, cudaMultiprocessors = 16,
              cudaClockKilohertz = 13;
// cuFuncSetAttribute: bytes of a block's memory that a launch may give
constexpr int cudaMostLaunchMemory = 8;
// cuDriverGetVersion: a stream that is captured into a graph takes launches that begin
// early from here on
constexpr int cudaCapturesEarlyLaunches = 12030;
// cuStreamCreate, cuEventCreate
constexpr unsigned cudaNonBlocking = 1, cudaDisableTiming = 2;
// cuStreamBeginCapture
constexpr int cudaCaptureThread = 1;
// cuMemPoolSetAttribute
constexpr int cudaReleaseThreshold = 4;
// cuTensorMapEncodeTiled: the type of elements; what rows of a box have swapped; what is
// fetched to L2 at once
constexpr int cudaTensor16Bits = 1, cudaTensorSwizzle128 = 3,
              cudaTensorL2At256 = 3;
// cuModuleLoadDataEx
constexpr int cudaErrorLog = 5, cudaErrorLogBytes = 6;

} // namespace kvc::rt

#endif // KVC_RUNTIME_DEVICE_CUDADRIVER_H
