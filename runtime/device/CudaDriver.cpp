//===- CudaDriver.cpp - the driver library, opened at run time ------------===//

#include "runtime/device/CudaDriver.h"

#include "runtime/base/Failure.h"
#include "runtime/device/BoxedTensor.h"
#include "runtime/kernels/TensorMap.h"

#include <dlfcn.h>

using namespace kvc;
using namespace kvc::rt;

static CudaDriver open() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw fail(KVC_DRIVER_ERROR, "no CUDA driver: {}", dlerror());
  CudaDriver driver;
#define KVC_CUDA_LOOK_FOR(name, ...)                                           \
  driver.name = reinterpret_cast<std::type_identity_t<__VA_ARGS__>>(           \
      dlsym(library, #name));
#define KVC_CUDA_LOAD(name, ...)                                               \
  KVC_CUDA_LOOK_FOR(name, __VA_ARGS__)                                         \
  if (!driver.name)                                                            \
    throw fail(KVC_DRIVER_ERROR, "the CUDA driver has no symbol {}", #name);
  KVC_CUDA_SYMBOLS(KVC_CUDA_LOAD)
  KVC_CUDA_NEW_SYMBOLS(KVC_CUDA_LOOK_FOR)
#undef KVC_CUDA_LOAD
#undef KVC_CUDA_LOOK_FOR
  driver.check(driver.cuInit(0), "cuInit");
  return driver;
}

const CudaDriver &CudaDriver::get() {
  static const CudaDriver driver = open();
  return driver;
}

bool CudaDriver::mapTensor(const BoxedTensor &tensor,
                           gpu::TensorMap &map) const {
  if (!cuTensorMapEncodeTiled)
    return false;
  const auto &extents = tensor.extents;
  const uint64_t sizes[] = {extents[0], extents[1], extents[2], extents[3]};
  // What is there once is never stepped over, but 0 is no stride.
  uint64_t strides[3];
  for (size_t i = 0; i < 3; ++i)
    strides[i] = i && extents[i + 1] == 1 ? strides[i - 1] : tensor.strides[i];
  const uint32_t box[] = {BoxedTensor::columns, tensor.rows, 1, 1},
                 steps[] = {1, 1, 1, 1};
  return cuTensorMapEncodeTiled(&map, cudaTensor16Bits, /*rank=*/4, tensor.data,
                                sizes, strides, box, steps, /*interleave=*/0,
                                cudaTensorSwizzle128, cudaTensorL2At256,
                                /*fill=*/0) == 0;
}

void CudaDriver::check(CUresult result, std::string_view call) const {
  if (result == 0)
    return;
  const char *name = nullptr, *words = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &words);
  throw fail(KVC_DRIVER_ERROR, "{} failed with {} ({}): {}", call, result,
             name ? name : "unknown", words ? words : "no description");
}
