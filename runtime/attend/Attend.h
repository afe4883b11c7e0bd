//===- Attend.h - attention on the host -----------------------------------===//

#ifndef KVC_RUNTIME_ATTEND_ATTEND_H
#define KVC_RUNTIME_ATTEND_ATTEND_H

#include "kvc/attend.h"
#include "runtime/attend/Cut.h"
#include "runtime/attend/KeyList.h"

namespace kvc::rt {

/// One call of kvc_attend, checked.
class Attend {
public:
  /// Throws Failure where a number or a pointer is wrong; reads no array.
  explicit Attend(const kvc_attend_args &args);

  size_t workspaceBytes() const;
  /// Of calls of as many queries and of fewer.
  size_t mostWorkspaceBytes() const;
  /// Throws Failure before anything is written where an array is wrong. Else allocates
  /// nothing.
  void run(TileKernel kernel) const;

private:
  kvc_attend_args args;
  CacheView cache;
  Cut cut;

  void checkCall() const;
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
