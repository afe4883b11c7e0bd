//===- LaunchMemory.h - kernels whose shared memory the launch gives ------===//
//
// A block has 48 KiB of shared memory of its own on every chip; more it has only where a
// launch gives it (dynamic shared memory), which then is all that it has. The manifest says
// how much (`shared_bytes`); in PTX it is one array without a length.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_LAUNCHMEMORY_H
#define KVC_CODEGEN_LAUNCHMEMORY_H

namespace kvc {

/// On a gpu.func, and what becomes of it: bytes of shared memory, i64. Without it, its
/// attributions are memory of its own.
inline constexpr const char *launchBytesAttr = "kvc.shared_bytes";

} // namespace kvc

#endif // KVC_CODEGEN_LAUNCHMEMORY_H
