//===- CublasLt.cpp - the part of cuBLASLt's ABI that we use --------------===//

#include "executor/cuda/CublasLt.h"

#include "runtime/base/Failure.h"

#include <dlfcn.h>

using namespace kvc::gpu;

static CublasLt open() {
  void *library = nullptr;
  std::string words;
  // What we use is the same in both.
  for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library)
      break;
    words += (words.empty() ? "" : "; ") + std::string(dlerror());
  }
  if (!library)
    throw kvc::rt::fail(KVC_DRIVER_ERROR, "no cuBLASLt: {}", words);
  CublasLt functions;
  using Status = CublasLt::Status;
  using Handle = CublasLt::Handle;
  using MatmulDesc = CublasLt::MatmulDesc;
  using Layout = CublasLt::Layout;
  using Preference = CublasLt::Preference;
  using Algorithm = CublasLt::Algorithm;
  using Advice = CublasLt::Advice;
  namespace rt = kvc::rt;
#define KVC_CUBLASLT_LOAD(name, ...)                                           \
  functions.name = reinterpret_cast<std::type_identity_t<__VA_ARGS__>>(        \
      dlsym(library, #name));                                                  \
  if (!functions.name)                                                         \
    throw rt::fail(KVC_DRIVER_ERROR, "cuBLASLt has no symbol {}", #name);
  KVC_CUBLASLT_SYMBOLS(KVC_CUBLASLT_LOAD)
#undef KVC_CUBLASLT_LOAD
  return functions;
}

const CublasLt &CublasLt::get() {
  static const CublasLt library = open();
  return library;
}

void CublasLt::check(Status status, const std::string &call) const {
  if (status != 0)
    throw rt::fail(KVC_DRIVER_ERROR, "{} failed with {}: {}", call, status,
                   cublasLtGetStatusString(status));
}
