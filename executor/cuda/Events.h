//===- Events.h - what the host learns while a queue goes on --------------===//

#ifndef KVC_EXECUTOR_CUDA_EVENTS_H
#define KVC_EXECUTOR_CUDA_EVENTS_H

#include "executor/cuda/Queue.h"

namespace kvc::gpu {

/// A point of a queue.
class Event {
public:
  explicit Event(Queue &queue, bool timed = false);
  ~Event();
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;

  /// The point is behind all that is enqueued by now.
  void record();
  /// Waits until the GPU is there.
  void wait() const;
  /// Between two timed events that were waited for.
  double secondsSince(const Event &earlier) const;

private:
  Queue &queue;
  rt::CUevent event = nullptr;
};

/// Small results on their way to the host while the GPU goes on.
class Readback {
public:
  Readback(Queue &queue, size_t bytes);
  ~Readback();
  Readback(const Readback &) = delete;
  Readback &operator=(const Readback &) = delete;

  /// Enqueues a copy of all the bytes.
  void start(const void *from);
  /// Waits until they have arrived.
  template <typename T> const T *wait() const {
    arrived.wait();
    return static_cast<const T *>(memory);
  }

private:
  Queue &queue;
  const size_t bytes;
  void *memory = nullptr; // pinned
  Event arrived;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_EVENTS_H
