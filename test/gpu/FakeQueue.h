//===- FakeQueue.h - a GPU that works when it is waited for ---------------===//
//
// The tests' stand-in for the CUDA driver and cuBLASLt, for machines without a
// GPU. Work is queued and runs only when somebody waits for it, so that who
// forgets to wait reads what was there before. New and freed memory is NaN, and
// every allocation has a fence that is looked at. Kernels run in the emulation,
// in a shuffled order: policies' from their artefact, the executor's from the
// same source as its PTX. With KVC_FAKE_CUDA_PTX=1 the PTX itself runs, on the
// machine of ptx/.
//
// KVC_FAKE_CUDA_LOG names a file for what was counted, KVC_FAKE_CUDA_FAULT the
// launch that fails for good, KVC_FAKE_CUDA_BYTES the memory there is, KVC_FAKE_CUDA_VERSION
// the driver's.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_GPU_FAKEQUEUE_H
#define KVC_TEST_GPU_FAKEQUEUE_H

#include "runtime/device/CudaDriver.h"

#include <deque>
#include <functional>
#include <string>

struct kvc::rt::CUstream_st {
  std::deque<std::function<void()>> work;
  bool behindKernel = false;   // what was enqueued last is a launch
  CUgraph capturing = nullptr; // takes the work in the queue's place
};

/// In front of a function of the driver.
#define KVC_FAKE extern "C" __attribute__((visibility("default"))) CUresult

namespace kvc::fake {

// Of CUresult.
enum {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  InvalidContext = 201,
  CaptureUnsupported = 900,
  NotFound = 500,
  NoMaps = 801,
  LaunchFailed = 719
};

/// Queues work; the null stream is one like any other.
void enqueue(rt::CUstream stream, std::function<void()> work);
/// True if [memory, memory + bytes) lies within one allocation of the device.
bool isDevice(const void *memory, size_t bytes);
/// The first fault stays, as on a GPU: every later call is refused with it.
void fault(const std::string &words);
bool faulted();
/// What a call must answer at once, Success if it may go on: the fault, or that
/// no context is current.
rt::CUresult refusal();
/// True if a launch into a stream that is captured, or not, would be right behind another.
bool isBehindKernel(rt::CUstream stream);
/// A kernel was enqueued, which may begin before the one in front of it has ended, or
/// not; it has run, and the fences are looked at.
void countLaunch(rt::CUstream stream, bool early);
void ran(const std::string &kernel);

} // namespace kvc::fake

#endif // KVC_TEST_GPU_FAKEQUEUE_H
