//===- CacheApi.cpp - the C ABI over caches -------------------------------===//

#include "runtime/base/Boundary.h"
#include "runtime/cache/Append.h"

using namespace kvc::rt;

extern "C" {

kvc_status kvc_append(const kvc_append_args *args) {
  return guarded([&] { append(received(args, "args")); });
}

} // extern "C"
