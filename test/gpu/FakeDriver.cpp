//===- FakeDriver.cpp - the CUDA driver's functions, on the host ----------===//

#include "test/gpu/FakeQueue.h"

#include "kvc/artifact.h"
#include "runtime/base/Failure.h"
#include "runtime/gpu/kernels/HostKernels.h"
#include "runtime/simt/Emulator.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <vector>

#include <dlfcn.h>

using namespace kvc::rt;
using namespace kvc::fake;

namespace kvc::rt {
struct CUfunc_st {
  std::string name;
  kvc_host_entry entry = {};      // of the artefact's or the executor's table
  std::vector<size_t> parameters; // bytes of each
};

struct CUmod_st {
  const char *ptx;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct CUevent_st {
  CUstream stream = nullptr;
  bool recorded = false, passed = false;
  std::chrono::steady_clock::time_point at;
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
  size_t launches = 0, synchronisations = 0, waits = 0;
  /// Waits for an event behind which nothing was queued: the GPU would idle.
  size_t idleWaits = 0;
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
                          << "\nsynchronisations " << counts.synchronisations
                          << "\nwaits " << counts.waits << "\nidle_waits "
                          << counts.idleWaits << "\nleaked "
                          << memory.size() + pinned.size() << "\n";
  }
};

Fake &state() {
  static Fake instance;
  return instance;
}

bool ready() { return !faulted() && !state().current.empty(); }
CUresult refusal() { return faulted() ? LaunchFailed : InvalidContext; }

char *pointer(CUdeviceptr address) { return reinterpret_cast<char *>(address); }

/// Of those that have run, for the report of a broken fence.
std::string lastKernel = "nobody";

void checkFence(const char *memory, size_t bytes) {
  for (size_t i = 0; i < fenceBytes; ++i)
    if (static_cast<unsigned char>(memory[bytes + i]) != fence)
      return fault(lastKernel + " wrote behind an allocation of " +
                   std::to_string(bytes) + " bytes");
}

CUdeviceptr allocate(size_t bytes) {
  auto *memory = static_cast<char *>(
      std::aligned_alloc(256, (bytes + fenceBytes + 255) / 256 * 256));
  std::memset(memory, poison, bytes);
  std::memset(memory + bytes, fence, fenceBytes);
  state().memory[memory] = bytes;
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

/// The table of host kernels beside a text of PTX.
std::vector<kvc_host_entry> kernelsBeside(const char *ptx) {
  Dl_info info;
  if (dladdr(ptx, &info))
    if (void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      auto *artifact =
          static_cast<const kvc_artifact *>(dlsym(library, "kvc_artifact"));
      for (uint32_t i = 0; artifact && i < artifact->image_count; ++i)
        if (artifact->images[i].ptx == ptx)
          return {artifact->kernels,
                  artifact->kernels + artifact->kernel_count};
    }
  return {kvc::gpu::hostKernels.begin(), kvc::gpu::hostKernels.end()};
}

size_t bytesOf(const std::string &type) {
  return type.ends_with("64") ? 8 : type.ends_with("32") ? 4 : 0;
}

} // namespace

void kvc::fake::enqueue(CUstream stream, std::function<void()> work) {
  streamOf(stream)->work.push_back(std::move(work));
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

#define KVC_FAKE extern "C" __attribute__((visibility("default"))) CUresult

//===--- devices and contexts ---------------------------------------------===//

KVC_FAKE cuInit(unsigned) { return Success; }
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
  if (which == cudaMajor)
    *value = 9;
  else if (which == cudaMinor)
    *value = 0;
  else if (which == cudaMultiprocessors)
    *value = multiprocessors;
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
  if (!ready())
    return refusal();
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
                                      : "a wrong argument";
  return Success;
}

//===--- memory -----------------------------------------------------------===//

KVC_FAKE cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
  if (!ready() || !bytes)
    return ready() ? InvalidValue : refusal();
  *memory = allocate(bytes);
  return Success;
}
KVC_FAKE cuMemFree_v2(CUdeviceptr memory) {
  // As the driver does: not before all that was enqueued is done.
  if (CUresult result = cuCtxSynchronize())
    return result;
  release(pointer(memory));
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuMemAllocAsync(CUdeviceptr *memory, size_t bytes, CUstream) {
  return cuMemAlloc_v2(memory, bytes);
}
KVC_FAKE cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  if (!ready())
    return refusal();
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
  if (!ready())
    return refusal();
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
  if (!ready())
    return refusal();
  copy(pointer(to), from, bytes);
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  if (!ready())
    return refusal();
  copy(to, pointer(from), bytes);
  return faulted() ? LaunchFailed : Success;
}
KVC_FAKE cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream stream) {
  if (!ready())
    return refusal();
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
  if (!ready())
    return refusal();
  enqueue(stream, [=] { copy(to, pointer(from), bytes); });
  return Success;
}
KVC_FAKE cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  if (!ready())
    return refusal();
  enqueue(stream, [=] {
    if (!isDevice(pointer(to), bytes) || !isDevice(pointer(from), bytes))
      return fault("a copy on the device leaves its allocation");
    std::memcpy(pointer(to), pointer(from), bytes);
  });
  return Success;
}
KVC_FAKE cuMemcpy2DAsync_v2(const CudaCopy2D *args, CUstream stream) {
  if (!ready())
    return refusal();
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
  if (!ready())
    return refusal();
  enqueue(stream, [=] {
    if (!isDevice(pointer(memory), bytes))
      return fault("a memset leaves its allocation");
    std::memset(pointer(memory), value, bytes);
  });
  return Success;
}
KVC_FAKE cuMemsetD8_v2(CUdeviceptr memory, unsigned char value, size_t bytes) {
  if (!ready() || !isDevice(pointer(memory), bytes))
    return ready() ? InvalidValue : refusal();
  std::memset(pointer(memory), value, bytes);
  return Success;
}

//===--- streams and events -----------------------------------------------===//

KVC_FAKE cuStreamCreate(CUstream *stream, unsigned flags) {
  if (!ready())
    return refusal();
  *stream = new CUstream_st;
  state().streams.insert(*stream);
  return flags == cudaNonBlocking ? Success : InvalidValue;
}
KVC_FAKE cuStreamSynchronize(CUstream stream) {
  if (!ready())
    return refusal();
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
KVC_FAKE cuEventCreate(CUevent *event, unsigned) {
  if (!ready())
    return refusal();
  *event = new CUevent_st;
  return Success;
}
KVC_FAKE cuEventRecord(CUevent event, CUstream stream) {
  if (!ready())
    return refusal();
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
  if (!ready() || !event->recorded)
    return ready() ? InvalidValue : refusal();
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

//===--- kernels ----------------------------------------------------------===//

KVC_FAKE cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned,
                            int *, void **) {
  if (!ready())
    return refusal();
  auto loaded = std::make_unique<CUmod_st>();
  loaded->ptx = static_cast<const char *>(image);
  std::vector<kvc_host_entry> table = kernelsBeside(loaded->ptx);
  // Names and parameters are the PTX's.
  static const std::regex entry(R"(\.entry\s+(\w+)\s*\(([^)]*)\))");
  static const std::regex parameter(
      R"(\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr[^,]*?\s)?\w+(?:\[(\d+)\])?)");
  std::string text = loaded->ptx;
  for (std::sregex_iterator it(text.begin(), text.end(), entry), end; it != end;
       ++it) {
    auto function = std::make_unique<CUfunc_st>();
    function->name = (*it)[1];
    std::string list = (*it)[2];
    for (std::sregex_iterator p(list.begin(), list.end(), parameter); p != end;
         ++p)
      function->parameters.push_back((*p)[2].matched ? std::stoul((*p)[2])
                                                     : bytesOf((*p)[1]));
    for (const kvc_host_entry &candidate : table)
      if (candidate.name == function->name)
        function->entry = candidate;
    loaded->functions[function->name] = std::move(function);
  }
  *module = loaded.release();
  return Success;
}
KVC_FAKE cuModuleUnload(CUmodule module) {
  delete module;
  return Success;
}
KVC_FAKE cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  auto it = module->functions.find(name);
  if (it == module->functions.end() || !it->second->entry.entry)
    return NotFound;
  *function = it->second.get();
  return Success;
}
KVC_FAKE cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                        unsigned block, unsigned blockY, unsigned blockZ,
                        unsigned shared, CUstream stream, void **parameters,
                        void **extra) {
  if (!ready())
    return refusal();
  if (!x || !y || !z || y > 65535 || z > 65535 || block % 32 || block > 1024 ||
      !block || blockY != 1 || blockZ != 1 || shared || extra)
    return InvalidValue;
  ++state().counts.launches;
  std::vector<uint64_t> slots;
  for (size_t i = 0; i < function->parameters.size(); ++i) {
    size_t at = slots.size(), bytes = function->parameters[i];
    slots.resize(at + (bytes + 7) / 8);
    std::memcpy(&slots[at], parameters[i], bytes);
  }
  kvc_host_entry entry = function->entry;
  std::string name = function->name;
  enqueue(stream, [=] {
    static uint64_t seed = 1;
    lastKernel = name;
    try {
      emulate({name, entry.entry, {x, y, z}, block, entry.shared_bytes},
              slots.data(), 0, ++seed);
    } catch (const Failure &failure) {
      fault(failure.what());
    }
    for (auto [memory, bytes] : state().memory)
      checkFence(memory, bytes);
  });
  return Success;
}
