//===- Stopwatch.h - wall time --------------------------------------------===//

#ifndef KVC_SUPPORT_STOPWATCH_H
#define KVC_SUPPORT_STOPWATCH_H

#include <chrono>

namespace kvc::rt {

/// Runs from its making on.
class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
};

} // namespace kvc::rt

#endif // KVC_SUPPORT_STOPWATCH_H
