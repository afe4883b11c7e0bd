//===- Entries.h - a list of C++ kernels, made callable -------------------===//
//
// A list is a macro KERNELS(X) of X(name, function, arguments, shared memory), types
// with commas in parentheses. For NVPTX KVC_ENTRIES makes them the kernels of a file
// of PTX, for the host a table for the emulation.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_RUNTIME_KERNELS_ENTRIES_H
#define KVC_RUNTIME_KERNELS_ENTRIES_H

#include "runtime/kernels/Simt.h"

#ifndef __NVPTX__
#include "kvc/artifact.h"

#include <span>
#endif

namespace kvc::gpu {

struct NoShared {};

template <typename T> struct Unwrap;
template <typename T> struct Unwrap<void(T)> {
  using Type = T;
};

#ifdef __NVPTX__
#define KVC_ENTRY(name, function, Args, Shared)                                \
  extern "C" __attribute__((device_kernel)) void name(const Args args) {       \
    uint64_t at;                                                               \
    asm("{\n .reg .b64 p;\n mov.b64 p, " #name "_param_0;\n"                   \
        " cvta.param.u64 %0, p;\n}"                                            \
        : "=l"(at));                                                           \
    function(Simt(at), args);                                                  \
  }
#define KVC_ENTRIES(table, KERNELS) KERNELS(KVC_ENTRY)
#else
#define KVC_ENTRY(name, function, Args, Shared)                                \
  {#name,                                                                      \
   [](kvc_simt_thread *thread, const uint64_t *args) {                         \
     function(Simt(thread), *reinterpret_cast<const Args *>(args));            \
   },                                                                          \
   sizeof(Unwrap<void Shared>::Type), nullptr, KVC_ANY_PROCESSOR},
#define KVC_ENTRIES(table, KERNELS)                                            \
  static const kvc_host_entry table##Entries[] = {KERNELS(KVC_ENTRY)};         \
  const std::span<const kvc_host_entry> table = table##Entries;
#endif

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_ENTRIES_H
