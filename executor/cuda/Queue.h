//===- Queue.h - work of the executor on one GPU, in order ----------------===//
//
// One stream. Memory comes and goes in the stream's order, so that a buffer may
// be dropped as soon as the work that reads it is enqueued. Nothing waits for
// the GPU but download(), the destructor, and the events of Events.h.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_QUEUE_H
#define KVC_EXECUTOR_CUDA_QUEUE_H

#include "kvc/kvc.h"
#include "runtime/device/BoxedTensor.h"
#include "runtime/device/CudaContext.h"
#include "runtime/kernels/TensorMap.h"
#include "executor/cuda/Products.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvc::gpu {

inline uint32_t ceilDiv(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

class Queue;

/// Device memory. Uninitialised when allocated; empty by default.
class Buffer {
public:
  Buffer() = default;
  Buffer(Queue &queue, size_t bytes);
  ~Buffer();
  Buffer(Buffer &&other) noexcept
      : queue(other.queue), address(std::exchange(other.address, nullptr)),
        size(std::exchange(other.size, 0)) {}
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(queue, other.queue);
    std::swap(address, other.address);
    std::swap(size, other.size);
    return *this;
  }

  size_t bytes() const { return size; }
  explicit operator bool() const { return address; }
  void *data(size_t offset = 0) const {
    return address ? static_cast<char *>(address) + offset : nullptr;
  }
  template <typename T> T *as() const { return static_cast<T *>(address); }

private:
  Queue *queue = nullptr;
  void *address = nullptr;
  size_t size = 0;
};

class Queue {
public:
  /// Loads the kernels for one element type. Throws Failure, also where the
  /// driver or cuBLASLt is missing or the device too old.
  Queue(int device, kvc_dtype dtype);
  ~Queue();

  /// The source may change once this returns.
  void upload(void *to, const void *from, size_t bytes);
  template <typename T> Buffer uploaded(const std::vector<T> &values) {
    Buffer buffer(*this, values.size() * sizeof(T));
    upload(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }
  /// Waits for all that was enqueued.
  void download(void *to, const void *from, size_t bytes);
  template <typename T>
  std::vector<T> downloaded(const void *from, size_t count) {
    std::vector<T> values(count);
    download(values.data(), from, count * sizeof(T));
    return values;
  }
  /// Elements of the queue's type.
  std::vector<float> downloadedAsFloat(const void *from, size_t count);
  void copy(void *to, const void *from, size_t bytes);
  /// Empty of an empty one.
  Buffer cloned(const Buffer &from) {
    if (!from)
      return {};
    Buffer to(*this, from.bytes());
    copy(to.data(), from.data(), from.bytes());
    return to;
  }
  /// `rows` rows of `width` bytes, `pitch` bytes from one to the next.
  void copyRows(void *to, size_t toPitch, const void *from, size_t fromPitch,
                size_t width, size_t rows);
  void clear(void *memory, size_t bytes);

  /// `kernel` is a name of kernels/Kernels.cpp, with "_TYPE" behind where there
  /// is one for each element type. Does nothing for an empty grid.
  /// `sharedBytes`: of memory for each block, beside what the kernel has of its own.
  template <typename Args>
  void launch(const std::string &kernel, std::array<uint32_t, 3> grid,
              uint32_t block, const Args &args, uint32_t sharedBytes = 0) {
    launchBytes(kernel, grid, block, &args, sharedBytes);
  }
  /// y[rows, out] = x[rows, in] * weight[out, in]^T. x and weight are of the
  /// queue's type; so is y, or fp32 with `wide`, and then y may be added to.
  void multiply(const Buffer &weight, const void *x, void *y, uint32_t rows,
                uint32_t out, uint32_t in, bool wide = false, bool add = false);

  void *stream() const { return cudaStream; }
  uint32_t multiprocessors() const {
    return uint32_t(context.attribute(rt::cudaMultiprocessors));
  }
  /// K and V, both laid out as `tensor` is, for kernels that multiply together; of no rows where
  /// the driver has no maps of them.
  BoxArgs boxes(rt::BoxedTensor tensor, const void *k, const void *v) const;
  /// True where there are kernels for four warps that multiply together.
  bool multipliesTogether() const;
  const kvc_dtype dtype;

private:
  friend class Buffer;
  friend class Event;
  friend class Readback;
  void launchBytes(const std::string &kernel, std::array<uint32_t, 3> grid,
                   uint32_t block, const void *args, uint32_t sharedBytes);

  const rt::CudaContext context;
  const rt::CudaDriver &driver;
  rt::CUstream cudaStream = nullptr;
  rt::CUmodule module = nullptr, togetherModule = nullptr;
  /// Pinned memory for small uploads, which then need not wait for the GPU.
  void *ring = nullptr;
  size_t ringUsed = 0;
  std::map<std::string, rt::CUfunction> functions;
  std::unique_ptr<Products> products;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_QUEUE_H
