//===- CacheApi.cpp - the C ABI over caches -------------------------------===//

#include "runtime/attend/Attend.h"
#include "runtime/attend/DeviceAttend.h"
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
    AttendCall call(received(args, "args"));
    *bytes = call.args.target == KVC_HOST ? Attend(call).mostWorkspaceBytes()
                                          : deviceWorkspaceBytes(call);
  });
}

kvc_status kvc_attend(const kvc_attend_args *args) {
  return guarded([&] {
    AttendCall call(received(args, "args"));
    if (call.args.target == KVC_HOST)
      Attend(call).run(tileKernels().front());
    else
      attendOnDevice(call);
  });
}

} // extern "C"
