//===- CudaTimer.h - how long work takes on a GPU -------------------------===//

#ifndef KVC_EXECUTOR_COST_CUDATIMER_H
#define KVC_EXECUTOR_COST_CUDATIMER_H

#include "runtime/device/CudaContext.h"

#include <functional>
#include <string>
#include <vector>

namespace kvc::rt {

/// Of repeated work, in seconds.
struct Times {
  double median = 0, p95 = 0;
  static Times of(std::vector<double> seconds);
};

/// One stream, and points on it that are timed by the GPU.
class CudaTimer {
public:
  /// Throws Failure where there is no such device.
  explicit CudaTimer(int ordinal);
  ~CudaTimer();
  CudaTimer(const CudaTimer &) = delete;

  void *stream() const { return cudaStream; }
  int attribute(int which) const { return context.attribute(which); }
  std::string deviceName() const;
  /// 13000 for CUDA 13.0.
  int driverVersion() const;

  /// A point behind all that is enqueued by now.
  void mark();
  /// Waits for all points since the last call: seconds from each to the next.
  std::vector<double> take();
  void wait() const;

  /// Enqueues on stream(), and neither allocates nor waits.
  using Work = std::function<void()>;
  /// `repeats` runs, the works in turn, behind as many that are not timed; seconds of
  /// each run. Works that read different memory find none of it in the cache, if there
  /// is enough of it.
  std::vector<double> timeLaunches(const std::vector<Work> &works,
                                   uint32_t repeats);
  /// The same works as graphs that are captured once and replayed.
  std::vector<double> timeGraphs(const std::vector<Work> &works,
                                 uint32_t repeats);

private:
  const CudaContext context;
  const CudaDriver &driver;
  const int ordinal;
  CUstream cudaStream = nullptr;
  std::vector<CUevent> marks; // since the last take()

  CUgraphExec capture(const Work &work) const;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_COST_CUDATIMER_H
