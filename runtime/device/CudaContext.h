//===- CudaContext.h - the primary context of a GPU -----------------------===//

#ifndef KVC_RUNTIME_DEVICE_CUDACONTEXT_H
#define KVC_RUNTIME_DEVICE_CUDACONTEXT_H

#include "runtime/device/CudaDriver.h"

#include <string>

namespace kvc::rt {

/// Retained for the object's life, so that policies, the executor and an
/// engine's own CUDA code share memory and streams.
class CudaContext {
public:
  /// Throws Failure where there is no driver or no such device.
  explicit CudaContext(int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext &) = delete;
  CudaContext &operator=(const CudaContext &) = delete;

  /// Makes the context current for a scope and restores what was. Throws
  /// Failure, but for destructors, which release what they can.
  class Current {
  public:
    enum class Use { Work, Release };
    explicit Current(const CudaContext &context, Use use = Use::Work);
    ~Current();
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

  private:
    const CudaDriver &driver;
    bool pushed;
  };

  int attribute(int which) const;
  /// 90 for compute capability 9.0.
  int chip() const;
  /// Stream-ordered memory that is freed stays with the process for the next
  /// allocation.
  void keepFreedMemory() const;
  /// Compiles PTX; `what` names it in the Failure, beside the driver's words.
  /// The context must be current.
  CUmodule load(const char *ptx, const std::string &what) const;
  /// Lets a kernel be launched with so much memory for each block. Throws Failure where
  /// the device has less. The context must be current.
  void allowSharedBytes(CUfunction kernel, uint32_t bytes) const;

  const CudaDriver &driver;

private:
  CUdevice device = 0;
  CUcontext context = nullptr;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_DEVICE_CUDACONTEXT_H
