//===- Queue.cpp - work of the executor on one GPU, in order --------------===//

#include "executor/cuda/Queue.h"

#include "runtime/base/Failure.h"
#include "runtime/base/DType.h"
#include "executor/cuda/Ptx.h"
#include "runtime/kernels/AttentionState.h"
#include "runtime/plan/Manifest.h"

#include <algorithm>
#include <cstring>

using namespace kvc::gpu;
using kvc::rt::CUdeviceptr;
using Current = kvc::rt::CudaContext::Current;

static CUdeviceptr address(const void *memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

Buffer::Buffer(Queue &queue, size_t bytes) : queue(&queue), size(bytes) {
  Current current(queue.context);
  CUdeviceptr memory;
  queue.driver.check(queue.driver.cuMemAllocAsync(
                         &memory, std::max<size_t>(bytes, 1), queue.cudaStream),
                     "cuMemAllocAsync of " + std::to_string(bytes) + " bytes");
  address = reinterpret_cast<void *>(memory);
}

Buffer::~Buffer() {
  if (!address)
    return;
  Current current(queue->context, Current::Use::Release);
  queue->driver.cuMemFreeAsync(::address(address), queue->cudaStream);
}

// Uploads up to `small` bytes go through a ring of `ringBytes`.
static constexpr size_t small = 64 << 10, ringBytes = 1 << 20;

Queue::Queue(int device, kvc_dtype dtype)
    : dtype(dtype), context(device), driver(context.driver) {
  if (context.chip() < ptxChip)
    throw rt::fail(
        KVC_UNSUPPORTED,
        "the executor's kernels need sm_{} or later, the device is sm_{}",
        ptxChip, context.chip());
  Current current(context);
  products = std::make_unique<Products>(dtype);
  module = context.load(ptxOf(dtype), "the executor's kernels");
  driver.check(driver.cuStreamCreate(&cudaStream, rt::cudaNonBlocking),
               "cuStreamCreate");
  driver.check(driver.cuMemHostAlloc(&ring, ringBytes, 0), "cuMemHostAlloc");
  context.keepFreedMemory();
}

Queue::~Queue() {
  Current current(context, Current::Use::Release);
  driver.cuStreamSynchronize(cudaStream);
  products.reset();
  driver.cuMemFreeHost(ring);
  driver.cuStreamDestroy_v2(cudaStream);
  driver.cuModuleUnload(module);
  if (togetherModule)
    driver.cuModuleUnload(togetherModule);
}

bool Queue::multipliesTogether() const {
  return togetherPtxOf(dtype) && context.chip() == togetherPtxChip;
}

void Queue::upload(void *to, const void *from, size_t bytes) {
  if (!bytes)
    return;
  Current current(context);
  if (bytes <= small) {
    if (ringUsed + bytes > ringBytes) { // what lies there may be in use
      driver.check(driver.cuStreamSynchronize(cudaStream),
                   "cuStreamSynchronize");
      ringUsed = 0;
    }
    from = std::memcpy(static_cast<char *>(ring) + ringUsed, from, bytes);
    ringUsed += (bytes + 15) / 16 * 16;
  }
  driver.check(
      driver.cuMemcpyHtoDAsync_v2(address(to), from, bytes, cudaStream),
      "cuMemcpyHtoDAsync");
  // The driver reads large sources before it returns, as long as they are not
  // pinned, and ours never are.
}

void Queue::download(void *to, const void *from, size_t bytes) {
  Current current(context);
  if (bytes)
    driver.check(
        driver.cuMemcpyDtoHAsync_v2(to, address(from), bytes, cudaStream),
        "cuMemcpyDtoHAsync");
  driver.check(driver.cuStreamSynchronize(cudaStream), "cuStreamSynchronize");
}

std::vector<float> Queue::downloadedAsFloat(const void *from, size_t count) {
  if (dtype == KVC_F32)
    return downloaded<float>(from, count);
  auto bytes = downloaded<std::byte>(from, count * rt::dtypeBytes(dtype));
  return rt::widened(bytes.data(), count, dtype);
}

void Queue::copy(void *to, const void *from, size_t bytes) {
  Current current(context);
  if (bytes)
    driver.check(driver.cuMemcpyDtoDAsync_v2(address(to), address(from), bytes,
                                             cudaStream),
                 "cuMemcpyDtoDAsync");
}

void Queue::copyRows(void *to, size_t toPitch, const void *from,
                     size_t fromPitch, size_t width, size_t rows) {
  Current current(context);
  rt::CudaCopy2D copy;
  copy.from = address(from);
  copy.fromPitch = fromPitch;
  copy.to = address(to);
  copy.toPitch = toPitch;
  copy.width = width;
  copy.height = rows;
  if (width && rows)
    driver.check(driver.cuMemcpy2DAsync_v2(&copy, cudaStream),
                 "cuMemcpy2DAsync");
}

void Queue::clear(void *memory, size_t bytes) {
  Current current(context);
  if (bytes)
    driver.check(driver.cuMemsetD8Async(address(memory), 0, bytes, cudaStream),
                 "cuMemsetD8Async");
}

BoxArgs Queue::boxes(rt::BoxedTensor tensor, const void *k,
                     const void *v) const {
  Current current(context);
  BoxArgs boxes = {};
  auto map = [&](const void *data, TensorMap &to) {
    tensor.data = const_cast<void *>(data);
    return driver.mapTensor(tensor, to);
  };
  if (map(k, boxes.k) && map(v, boxes.v))
    boxes.rows = tensor.rows;
  return boxes;
}

void Queue::launchBytes(const std::string &kernel, std::array<uint32_t, 3> grid,
                        uint32_t block, const void *args,
                        uint32_t sharedBytes) {
  if (!grid[0] || !grid[1] || !grid[2])
    return;
  Current current(context);
  std::string name = kernel;
  if (size_t at = name.find("TYPE"); at != std::string::npos)
    name.replace(at, 4, rt::dtypeName(dtype));
  rt::CUfunction &function = functions[name];
  if (!function) {
    bool together = name.ends_with(attentionKernelEnd(Sharing::Keys64));
    if (together && !togetherModule)
      togetherModule = context.load(togetherPtxOf(dtype),
                                    "the executor's kernels for sm_90a");
    driver.check(driver.cuModuleGetFunction(&function,
                                            together ? togetherModule : module,
                                            name.c_str()),
                 "cuModuleGetFunction of " + name);
  }
  context.allowSharedBytes(function, sharedBytes);
  void *slots[] = {const_cast<void *>(args)};
  driver.check(driver.cuLaunchKernel(function, grid[0], grid[1], grid[2], block,
                                     1, 1, sharedBytes, cudaStream, slots,
                                     nullptr),
               "cuLaunchKernel of " + name);
}

void Queue::multiply(const Buffer &weight, const void *x, void *y,
                     uint32_t rows, uint32_t out, uint32_t in, bool wide,
                     bool add) {
  Current current(context);
  products->multiply(weight.data(), x, y, {rows, out, in, wide, add},
                     cudaStream);
}
