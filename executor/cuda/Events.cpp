//===- Events.cpp - what the host learns while a queue goes on ------------===//

#include "executor/cuda/Events.h"

#include <algorithm>

using namespace kvc::gpu;
using Current = kvc::rt::CudaContext::Current;

Event::Event(Queue &queue, bool timed) : queue(queue) {
  Current current(queue.context);
  queue.driver.check(
      queue.driver.cuEventCreate(&event, timed ? 0 : rt::cudaDisableTiming),
      "cuEventCreate");
}

Event::~Event() {
  Current current(queue.context, Current::Use::Release);
  queue.driver.cuEventDestroy_v2(event);
}

void Event::record() {
  Current current(queue.context);
  queue.driver.check(queue.driver.cuEventRecord(event, queue.cudaStream),
                     "cuEventRecord");
}

void Event::wait() const {
  Current current(queue.context);
  queue.driver.check(queue.driver.cuEventSynchronize(event),
                     "cuEventSynchronize");
}

double Event::secondsSince(const Event &earlier) const {
  Current current(queue.context);
  float milliseconds = 0;
  queue.driver.check(
      queue.driver.cuEventElapsedTime(&milliseconds, earlier.event, event),
      "cuEventElapsedTime");
  return milliseconds / 1e3;
}

Readback::Readback(Queue &queue, size_t bytes)
    : queue(queue), bytes(bytes), arrived(queue) {
  Current current(queue.context);
  queue.driver.check(
      queue.driver.cuMemHostAlloc(&memory, std::max<size_t>(bytes, 1), 0),
      "cuMemHostAlloc of " + std::to_string(bytes) + " bytes");
}

Readback::~Readback() {
  Current current(queue.context, Current::Use::Release);
  queue.driver.cuStreamSynchronize(queue.cudaStream); // it may be in use
  queue.driver.cuMemFreeHost(memory);
}

void Readback::start(const void *from) {
  Current current(queue.context);
  queue.driver.check(queue.driver.cuMemcpyDtoHAsync_v2(
                         memory, reinterpret_cast<rt::CUdeviceptr>(from), bytes,
                         queue.cudaStream),
                     "cuMemcpyDtoHAsync");
  arrived.record();
}
