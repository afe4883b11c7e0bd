//===- CudaContext.cpp - the primary context of a GPU ---------------------===//

#include "runtime/device/CudaContext.h"

#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::rt;

CudaContext::CudaContext(int ordinal) : driver(CudaDriver::get()) {
  int count = 0;
  driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count)
    throw fail(KVC_BAD_ARGUMENT, "CUDA device must be below {}, got {}", count,
               ordinal);
  driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  driver.check(driver.cuDevicePrimaryCtxRetain(&context, device),
               "cuDevicePrimaryCtxRetain");
}

CudaContext::~CudaContext() { driver.cuDevicePrimaryCtxRelease_v2(device); }

CudaContext::Current::Current(const CudaContext &context, Use use)
    : driver(context.driver) {
  CUresult result = driver.cuCtxPushCurrent_v2(context.context);
  pushed = result == 0;
  if (use == Use::Work)
    driver.check(result, "cuCtxPushCurrent");
}

CudaContext::Current::~Current() {
  CUcontext popped;
  if (pushed)
    driver.cuCtxPopCurrent_v2(&popped);
}

int CudaContext::attribute(int which) const {
  int value = 0;
  driver.check(driver.cuDeviceGetAttribute(&value, which, device),
               "cuDeviceGetAttribute");
  return value;
}

int CudaContext::chip() const {
  return attribute(cudaMajor) * 10 + attribute(cudaMinor);
}

void CudaContext::keepFreedMemory() const {
  CUmemoryPool pool;
  driver.check(driver.cuDeviceGetDefaultMemPool(&pool, device),
               "cuDeviceGetDefaultMemPool");
  uint64_t threshold = UINT64_MAX;
  driver.check(
      driver.cuMemPoolSetAttribute(pool, cudaReleaseThreshold, &threshold),
      "cuMemPoolSetAttribute");
}

void CudaContext::allowSharedBytes(CUfunction kernel, uint32_t bytes) const {
  if (bytes)
    driver.check(
        driver.cuFuncSetAttribute(kernel, cudaMostLaunchMemory, int(bytes)),
        "cuFuncSetAttribute");
}

CUmodule CudaContext::load(const char *ptx, const std::string &what) const {
  char log[4096] = "";
  int options[] = {cudaErrorLog, cudaErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  CUmodule module = nullptr;
  CUresult result = driver.cuModuleLoadDataEx(&module, ptx, 2, options, values);
  std::string words(log);
  std::replace(words.begin(), words.end(), '\n', ' ');
  driver.check(result,
               "loading " + what + (words.empty() ? "" : " (" + words + ")"));
  return module;
}
