//===- CublasLt.h - the part of cuBLASLt's ABI that we use ----------------===//
//
// Written out, as CudaDriver.h writes out the driver's. test/runtime/
// CudaAbiTest.cpp compares it with NVIDIA's header where there is one.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_CUBLASLT_H
#define KVC_EXECUTOR_CUDA_CUBLASLT_H

#include "runtime/device/CudaDriver.h"

namespace kvc::gpu {

struct CublasLt {
  using Status = int;
  using Handle = struct cublasLtContext *;
  using MatmulDesc = struct cublasLtMatmulDescOpaque *;
  using Layout = struct cublasLtMatrixLayoutOpaque *;
  using Preference = struct cublasLtMatmulPreferenceOpaque *;
  struct Algorithm {
    uint64_t data[8];
  };
  struct Advice {
    Algorithm algorithm;
    size_t workspaceBytes;
    Status state;
    float waves;
    int reserved[4];
  };

  // cudaDataType_t, cublasComputeType_t, cublasOperation_t
  static constexpr int f32 = 0, f16 = 2, bf16 = 14;
  static constexpr int computeF32 = 68;
  static constexpr int transposed = 1;
  // cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t
  static constexpr int transposeA = 3;
  static constexpr int maxWorkspaceBytes = 1;

#define KVC_CUBLASLT_SYMBOLS(X)                                                \
  X(cublasLtCreate, Status (*)(Handle *))                                      \
  X(cublasLtDestroy, Status (*)(Handle))                                       \
  X(cublasLtGetStatusString, const char *(*)(Status))                          \
  X(cublasLtMatmulDescCreate, Status (*)(MatmulDesc *, int, int))              \
  X(cublasLtMatmulDescDestroy, Status (*)(MatmulDesc))                         \
  X(cublasLtMatmulDescSetAttribute,                                            \
    Status (*)(MatmulDesc, int, const void *, size_t))                         \
  X(cublasLtMatrixLayoutCreate,                                                \
    Status (*)(Layout *, int, uint64_t, uint64_t, int64_t))                    \
  X(cublasLtMatrixLayoutDestroy, Status (*)(Layout))                           \
  X(cublasLtMatmulPreferenceCreate, Status (*)(Preference *))                  \
  X(cublasLtMatmulPreferenceDestroy, Status (*)(Preference))                   \
  X(cublasLtMatmulPreferenceSetAttribute,                                      \
    Status (*)(Preference, int, const void *, size_t))                         \
  X(cublasLtMatmulAlgoGetHeuristic,                                            \
    Status (*)(Handle, MatmulDesc, Layout, Layout, Layout, Layout, Preference, \
               int, Advice *, int *))                                          \
  X(cublasLtMatmul,                                                            \
    Status (*)(Handle, MatmulDesc, const void *, const void *, Layout,         \
               const void *, Layout, const void *, const void *, Layout,       \
               void *, Layout, const Algorithm *, void *, size_t,              \
               rt::CUstream))
#define KVC_CUBLASLT_DECLARE(name, ...)                                        \
  std::type_identity_t<__VA_ARGS__> name = nullptr;
  KVC_CUBLASLT_SYMBOLS(KVC_CUBLASLT_DECLARE)
#undef KVC_CUBLASLT_DECLARE

  /// The opened library. Throws Failure that says what is missing.
  static const CublasLt &get();
  /// Throws unless `status` is success; the library's own words are in it.
  void check(Status status, const std::string &call) const;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_CUBLASLT_H
