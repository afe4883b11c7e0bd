//===- Cache.cpp - a saved cache, and decoding behind it -----------------===//

#include "test/fuzz/Target.h"

#include "executor/session/CacheFile.h"
#include "executor/session/OpenEngine.h"

using namespace kvc;

KVC_FUZZ_TARGET(cache) {
  static const auto engine =
      rt::makeEngine(KVC_FIXTURES "/models/llama", "host");
  rt::Session session =
      rt::loadCache(*engine, fuzz::file(bytes, "cache.safetensors"));
  session.decode(2, true);
}
