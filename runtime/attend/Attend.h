//===- Attend.h - attention on the host -----------------------------------===//

#ifndef KVC_RUNTIME_ATTEND_ATTEND_H
#define KVC_RUNTIME_ATTEND_ATTEND_H

#include "runtime/attend/AttendCall.h"
#include "runtime/attend/Cut.h"
#include "runtime/attend/KeyList.h"

namespace kvc::rt {

class Attend {
public:
  explicit Attend(const AttendCall &call);

  size_t workspaceBytes() const;
  /// Of calls of as many queries and of fewer.
  size_t mostWorkspaceBytes() const;
  /// Throws Failure before anything is written where the call or an array is wrong.
  /// Else allocates nothing.
  void run(TileKernel kernel) const;

private:
  const AttendCall &call;
  const kvc_attend_args &args;
  const CacheView &cache;
  const Cut cut;

  void checkArrays() const;
  unsigned usefulThreads() const;
  void runItem(const Item &item, TileKernel kernel) const;
  void loadQueries(const Item &item, float (*to)[KVC_MAX_HEAD_DIM]) const;
  void sweep(const Item &item, const KeyList &list, TileKernel kernel,
             Sums &sums) const;
  void combine(const Item &item, uint32_t splits, Sums &sums) const;
  void store(const Item &item, const Sums &sums) const;
  float *partOf(const Item &item, uint32_t split) const;
  uint32_t *countersAt() const;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_ATTEND_ATTEND_H
