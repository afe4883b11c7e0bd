//===- FakeDriver.cpp - the CUDA driver's functions, on the host ----------===//

#include "test/gpu/FakeQueue.h"

#include "ptx/TensorMap.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <utility>
#include <vector>

using namespace kvc::rt;
using namespace kvc::fake;

namespace kvc::rt {
struct CUevent_st {
  CUstream stream = nullptr;
  bool recorded = false, passed = false;
  std::chrono::steady_clock::time_point at;
};

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};

struct CUctx_st {};
struct CUmemPoolHandle_st {};
} // namespace kvc::rt

namespace {

constexpr size_t fenceBytes = 256;
constexpr unsigned char fence = 0xfd, poison = 0xff;
constexpr int multiprocessors = 4;

/// What the program did, written to the file KVC_FAKE_CUDA_LOG at its end.
struct Counts {
  size_t launches = 0, earlyLaunches = 0, synchronisations = 0, waits = 0;
  /// Waits for an event behind which nothing was queued: the GPU would idle.
  size_t idleWaits = 0;
  /// Device memory in the streams' order: what is freed is free for whoever
  /// asks next.
  size_t bytes = 0, peakBytes = 0;
};

struct Fake {
  std::map<const char *, size_t> memory; // device allocations, bytes
  std::map<const void *, size_t> pinned; // host allocations, bytes
  std::vector<CUcontext> current;
  CUctx_st context;
  CUmemPoolHandle_st pool;
  CUstream_st nullStream;
  std::set<CUstream> streams{&nullStream};
  std::string words; // of the fault
  Counts counts;

  ~Fake() {
    if (const char *path = std::getenv("KVC_FAKE_CUDA_LOG"))
      std::ofstream(path) << "launches " << counts.launches
                          << "\nearly_launches " << counts.earlyLaunches
                          << "\nsynchronisations " << counts.synchronisations
                          << "\nwaits " << counts.waits << "\nidle_waits "
                          << counts.idleWaits << "\nleaked "
                          << memory.size() + pinned.size() << "\npeak_bytes "
                          << counts.peakBytes << "\n";
  }
};

Fake &state() {
  static Fake instance;
  return instance;
}

char *pointer(CUdeviceptr address) { return reinterpret_cast<char *>(address); }

/// Of those that have run, for the report of a broken fence.
std::string lastKernel = "nobody";

void checkFence(const char *memory, size_t bytes) {
  for (size_t i = 0; i < fenceBytes; ++i)
    if (static_cast<unsigned char>(memory[bytes + i]) != fence)
      return fault(lastKernel + " wrote behind an allocation of " +
                   std::to_string(bytes) + " bytes");
}

/// A number that a test injects a failure with; SIZE_MAX if it does not.
size_t injected(const char *name) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : SIZE_MAX;
}

CUdeviceptr allocate(size_t bytes) {
  auto *memory = static_cast<char *>(
      std::aligned_alloc(256, (bytes + fenceBytes + 255) / 256 * 256));
  std::memset(memory, poison, bytes);
  std::memset(memory + bytes, fence, fenceBytes);
  state().memory[memory] = bytes;
  Counts &counts = state().counts;
  counts.bytes += bytes;
  counts.peakBytes = std::max(counts.peakBytes, counts.bytes);
  return reinterpret_cast<CUdeviceptr>(memory);
}

void release(char *memory) {
  auto it = state().memory.find(memory);
  if (it == state().memory.end())
    return fault("memory was freed that was not allocated");
  checkFence(memory, it->second);
  std::memset(memory, poison, it->second);
  std::free(memory);
  state().memory.erase(it);
}

void drain(CUstream stream) {
  while (!stream->work.empty()) {
    auto work = std::move(stream->work.front());
    stream->work.pop_front();
    if (!faulted())
      work();
  }
}

CUstream streamOf(CUstream stream) {
  return stream ? stream : &state().nullStream;
}

/// A copy whose sides are looked at when it runs, in the stream's order.
void copy(void *to, const void *from, size_t bytes) {
  if (!isDevice(to, bytes) && !isDevice(from, bytes))
    return fault("a copy of " + std::to_string(bytes) +
                 " bytes leaves its allocation");
  std::memcpy(to, from, bytes);
}

} // namespace

void kvc::fake::enqueue(CUstream stream, std::function<void()> work) {
  CUstream to = streamOf(stream);
  to->behindKernel = false;
  if (to->capturing)
    to->capturing->work.push_back(std::move(work));
  else
    to->work.push_back(std::move(work));
}

bool kvc::fake::isDevice(const void *memory, size_t bytes) {
  auto *at = static_cast<const char *>(memory);
  auto it = state().memory.upper_bound(at);
  if (it == state().memory.begin())
    return false;
  --it;
  return at + bytes <= it->first + it->second;
}

void kvc::fake::fault(const std::string &words) {
  if (state().words.empty())
    state().words = words;
}

bool kvc::fake::faulted() { return !state().words.empty(); }

CUresult kvc::fake::refusal() {
  return faulted()                 ? LaunchFailed
         : state().current.empty() ? InvalidContext
                                   : Success;
}

void kvc::fake::ran(const std::string &kernel) {
  lastKernel = kernel;
  for (auto [memory, bytes] : state().memory)
    checkFence(memory, bytes);
}

bool kvc::fake::isBehindKernel(CUstream stream) {
  return streamOf(stream)->behindKernel;
}

void kvc::fake::countLaunch(CUstream stream, bool early) {
  streamOf(stream)->behindKernel = true;
  state().counts.earlyLaunches += early;
  if (++state().counts.launches == injected("KVC_FAKE_CUDA_FAULT"))
    fault("an injected fault");
}

//===--- devices and contexts ---------------------------------------------===//

KVC_FAKE cuInit(unsigned) { return Success; }
KVC_FAKE cuDriverGetVersion(int *version) {
  size_t given = injected("KVC_FAKE_CUDA_VERSION");
  *version = given == SIZE_MAX ? 13000 : int(given);
  return Success;
}
KVC_FAKE cuDeviceGetCount(int *count) {
  *count = 1;
  return Success;
}
KVC_FAKE cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? Success : InvalidValue;
}
KVC_FAKE cuDeviceGetName(char *name, int capacity, CUdevice) {
  std::strncpy(name, "fake", size_t(capacity));
  return Success;
}
KVC_FAKE cuDeviceGetAttribute(int *value, int which, CUdevice) {
  const char *chip = std::getenv("KVC_FAKE_CUDA_CHIP"); // 75: sm_75
  if (which == cudaMajor)
    *value = chip ? std::atoi(chip) / 10 : 9;
  else if (which == cudaMinor)
    *value = chip ? std::atoi(chip) % 10 : 0;
  else if (which == cudaMultiprocessors)
    *value = multiprocessors;
  else if (which == cudaClockKilohertz)
    *value = 1000000;
  else
    return InvalidValue;
  return Success;
}
KVC_FAKE cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  *context = &state().context;
  return Success;
}
KVC_FAKE cuDevicePrimaryCtxRelease_v2(CUdevice) { return Success; }
KVC_FAKE cuCtxPushCurrent_v2(CUcontext context) {
  if (faulted())
    return LaunchFailed;
  state().current.push_back(context);
  return context == &state().context ? Success : InvalidContext;
}
KVC_FAKE cuCtxPopCurrent_v2(CUcontext *context) {
  if (state().current.empty())
    return InvalidContext;
  *context = state().current.back();
  state().current.pop_back();
  return Success;
}
KVC_FAKE cuCtxSynchronize() {
  if (CUresult no = refusal())
    return no;
  for (CUstream stream : state().streams)
    if (stream->capturing)
      return CaptureUnsupported;
  for (CUstream stream : state().streams)
    drain(stream);
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuGetErrorName(CUresult result, const char **name) {
  *name = result == LaunchFailed ? "FAKE_FAULT" : "FAKE_ERROR";
  return Success;
}
KVC_FAKE cuGetErrorString(CUresult result, const char **words) {
  *words = result == LaunchFailed     ? state().words.c_str()
           : result == InvalidContext ? "no context is current"
           : result == OutOfMemory    ? "out of memory"
                                      : "a wrong argument";
  return Success;
}

/// So that a test can tell.
KVC_FAKE kvcFakeDriver() { return Success; }

/// For the machine that runs PTX; the emulation has no engine that reads maps.
KVC_FAKE cuTensorMapEncodeTiled(kvc::gpu::TensorMap *map, int type,
                                uint32_t rank, void *data,
                                const uint64_t *extents,
                                const uint64_t *strides, const uint32_t *box,
                                const uint32_t *steps, int interleave,
                                int swizzle, int, int fill) {
  const char *runs = std::getenv("KVC_FAKE_CUDA_PTX");
  if (!runs || *runs != '1')
    return NoMaps;
  if (type != 1 || rank != 4 || interleave || swizzle != 3 || fill ||
      box[0] != BoxedTensor::columns || box[2] != 1 || box[3] != 1)
    return InvalidValue;
  BoxedTensor tensor = {data, {}, {}, box[1]};
  for (uint32_t i = 0; i < rank; ++i) {
    if (!extents[i] || extents[i] > UINT32_MAX || steps[i] != 1 || box[i] > 256)
      return InvalidValue;
    tensor.extents[i] = uint32_t(extents[i]);
  }
  for (uint32_t i = 0; i + 1 < rank; ++i) {
    if (!strides[i] || strides[i] % 16 || strides[i] >> 40)
      return InvalidValue;
    tensor.strides[i] = strides[i];
  }
  *map = kvc::ptx::mapOf(tensor);
  return Success;
}

//===--- memory -----------------------------------------------------------===//

KVC_FAKE cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
  if (CUresult no = refusal())
    return no;
  if (!bytes)
    return InvalidValue;
  if (state().counts.bytes + bytes > injected("KVC_FAKE_CUDA_BYTES"))
    return OutOfMemory;
  *memory = allocate(bytes);
  return Success;
}
KVC_FAKE cuMemFree_v2(CUdeviceptr memory) {
  // As the driver does: not before all that was enqueued is done.
  if (CUresult result = cuCtxSynchronize())
    return result;
  if (auto it = state().memory.find(pointer(memory));
      it != state().memory.end())
    state().counts.bytes -= it->second;
  release(pointer(memory));
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuMemAllocAsync(CUdeviceptr *memory, size_t bytes, CUstream) {
  return cuMemAlloc_v2(memory, bytes);
}
KVC_FAKE cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  if (CUresult no = refusal())
    return no;
  if (auto it = state().memory.find(pointer(memory));
      it != state().memory.end())
    state().counts.bytes -= it->second;
  enqueue(stream, [=] { release(pointer(memory)); });
  return Success;
}
KVC_FAKE cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice) {
  *pool = &state().pool;
  return Success;
}
KVC_FAKE cuMemPoolSetAttribute(CUmemoryPool pool, int which, void *) {
  return pool == &state().pool && which == cudaReleaseThreshold ? Success
                                                                : InvalidValue;
}
KVC_FAKE cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  if (CUresult no = refusal())
    return no;
  *memory = std::malloc(bytes);
  std::memset(*memory, poison, bytes);
  state().pinned[*memory] = bytes;
  return Success;
}
KVC_FAKE cuMemFreeHost(void *memory) {
  if (!state().pinned.erase(memory))
    return InvalidValue;
  std::free(memory);
  return Success;
}
KVC_FAKE cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  if (CUresult no = refusal())
    return no;
  copy(pointer(to), from, bytes);
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  if (CUresult no = refusal())
    return no;
  copy(to, pointer(from), bytes);
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream stream) {
  if (CUresult no = refusal())
    return no;
  auto *source = static_cast<const char *>(from);
  auto it = state().pinned.upper_bound(from);
  bool isPinned =
      it != state().pinned.begin() &&
      source < static_cast<const char *>((--it)->first) + it->second;
  if (isPinned) { // read when its turn comes
    enqueue(stream, [=] { copy(pointer(to), from, bytes); });
    return Success;
  }
  std::vector<char> staged(source, source + bytes);
  enqueue(stream, [=] { copy(pointer(to), staged.data(), bytes); });
  return Success;
}
KVC_FAKE cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  if (CUresult no = refusal())
    return no;
  enqueue(stream, [=] { copy(to, pointer(from), bytes); });
  return Success;
}
KVC_FAKE cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  if (CUresult no = refusal())
    return no;
  enqueue(stream, [=] {
    if (!isDevice(pointer(to), bytes) || !isDevice(pointer(from), bytes))
      return fault("a copy on the device leaves its allocation");
    std::memcpy(pointer(to), pointer(from), bytes);
  });
  return Success;
}
KVC_FAKE cuMemcpy2DAsync_v2(const CudaCopy2D *args, CUstream stream) {
  if (CUresult no = refusal())
    return no;
  CudaCopy2D c = *args;
  if (c.fromKind != 2 || c.toKind != 2 || c.fromPitch < c.width ||
      c.toPitch < c.width || c.fromX || c.fromY || c.toX || c.toY)
    return InvalidValue;
  enqueue(stream, [=] {
    for (size_t row = 0; row < c.height; ++row) {
      char *to = pointer(c.to) + row * c.toPitch;
      const char *from = pointer(c.from) + row * c.fromPitch;
      if (!isDevice(to, c.width) || !isDevice(from, c.width))
        return fault("a copy of rows leaves its allocation");
      std::memcpy(to, from, c.width);
    }
  });
  return Success;
}
KVC_FAKE cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t bytes,
                         CUstream stream) {
  if (CUresult no = refusal())
    return no;
  enqueue(stream, [=] {
    if (!isDevice(pointer(memory), bytes))
      return fault("a memset leaves its allocation");
    std::memset(pointer(memory), value, bytes);
  });
  return Success;
}
KVC_FAKE cuMemsetD8_v2(CUdeviceptr memory, unsigned char value, size_t bytes) {
  if (CUresult no = refusal())
    return no;
  if (!isDevice(pointer(memory), bytes))
    return InvalidValue;
  std::memset(pointer(memory), value, bytes);
  return Success;
}

//===--- streams and events -----------------------------------------------===//

KVC_FAKE cuStreamCreate(CUstream *stream, unsigned flags) {
  if (CUresult no = refusal())
    return no;
  *stream = new CUstream_st;
  state().streams.insert(*stream);
  return flags == cudaNonBlocking ? Success : InvalidValue;
}
KVC_FAKE cuStreamSynchronize(CUstream stream) {
  if (CUresult no = refusal())
    return no;
  if (streamOf(stream)->capturing)
    return CaptureUnsupported;
  ++state().counts.synchronisations;
  drain(streamOf(stream));
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuStreamDestroy_v2(CUstream stream) {
  drain(stream);
  state().streams.erase(stream);
  delete stream;
  return Success;
}
//===--- graphs -----------------------------------------------------------===//

KVC_FAKE cuStreamBeginCapture_v2(CUstream stream, int mode) {
  if (CUresult no = refusal())
    return no;
  if (stream->capturing || mode != cudaCaptureThread)
    return InvalidValue;
  stream->capturing = new CUgraph_st;
  return Success;
}
KVC_FAKE cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  if (CUresult no = refusal())
    return no;
  *graph = std::exchange(stream->capturing, nullptr);
  return *graph ? Success : InvalidValue;
}
KVC_FAKE cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long) {
  *executable = new CUgraphExec_st{*graph};
  return Success;
}
KVC_FAKE cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  if (CUresult no = refusal())
    return no;
  for (const auto &work : executable->graph.work)
    enqueue(stream, work);
  return Success;
}
KVC_FAKE cuGraphDestroy(CUgraph graph) {
  delete graph;
  return Success;
}
KVC_FAKE cuGraphExecDestroy(CUgraphExec executable) {
  delete executable;
  return Success;
}

//===--- events -----------------------------------------------------------===//

KVC_FAKE cuEventCreate(CUevent *event, unsigned) {
  if (CUresult no = refusal())
    return no;
  *event = new CUevent_st;
  return Success;
}
KVC_FAKE cuEventRecord(CUevent event, CUstream stream) {
  if (CUresult no = refusal())
    return no;
  event->stream = streamOf(stream);
  event->recorded = true;
  event->passed = false;
  enqueue(stream, [=] {
    event->passed = true;
    event->at = std::chrono::steady_clock::now();
  });
  return Success;
}
KVC_FAKE cuEventSynchronize(CUevent event) {
  if (CUresult no = refusal())
    return no;
  if (!event->recorded)
    return InvalidValue;
  if (!event->passed) {
    ++state().counts.waits;
    auto &work = event->stream->work;
    while (!event->passed && !work.empty() && !faulted()) {
      auto next = std::move(work.front());
      work.pop_front();
      next();
    }
    // Copies back and releases keep no GPU busy, products and kernels do; in
    // between there are dozens of those in every layer.
    state().counts.idleWaits += work.size() < 8;
  }
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuEventElapsedTime(float *milliseconds, CUevent first, CUevent last) {
  if (!first->passed || !last->passed)
    return InvalidValue;
  *milliseconds =
      std::chrono::duration<float, std::milli>(last->at - first->at).count();
  return Success;
}
KVC_FAKE cuEventDestroy_v2(CUevent event) {
  if (event->recorded && !event->passed)
    drain(event->stream);
  delete event;
  return Success;
}
