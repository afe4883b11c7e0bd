//===- CacheApi.cpp - the C ABI over caches -------------------------------===//

#include "runtime/attend/Attend.h"
#include "runtime/base/Boundary.h"
#include "runtime/cache/Append.h"

using namespace kvc::rt;

extern "C" {

kvc_status kvc_append(const kvc_append_args *args) {
  return guarded([&] { append(received(args, "args")); });
}

kvc_status kvc_attend_workspace(const kvc_attend_args *args, size_t *bytes) {
  return guarded([&] {
    notNull(bytes, "bytes");
    *bytes = Attend(received(args, "args")).mostWorkspaceBytes();
  });
}

kvc_status kvc_attend(const kvc_attend_args *args) {
  return guarded(
      [&] { Attend(received(args, "args")).run(tileKernels().front()); });
}

} // extern "C"
