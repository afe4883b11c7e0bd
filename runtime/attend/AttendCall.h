//===- AttendCall.h - one call of kvc_attend, checked ---------------------===//

#ifndef KVC_RUNTIME_ATTEND_ATTENDCALL_H
#define KVC_RUNTIME_ATTEND_ATTENDCALL_H

#include "kvc/attend.h"
#include "runtime/cache/CacheView.h"

namespace kvc::rt {

/// Reads no array: those are in the target's memory.
struct AttendCall {
  /// Throws Failure where the numbers that decide the workspace are wrong.
  explicit AttendCall(const kvc_attend_args &args);

  kvc_attend_args args;
  CacheView cache;
  uint32_t group;    // query heads of a KV head
  uint64_t mostKeys; // that a head may have

  /// Throws Failure where another number or a pointer is wrong.
  void check(size_t workspaceBytes) const;
  /// What logits are multiplied by, not 0.
  float scale() const;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_ATTEND_ATTENDCALL_H
