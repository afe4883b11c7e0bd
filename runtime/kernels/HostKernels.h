//===- HostKernels.h - the runtime's kernels, compiled for the host -------===//

#ifndef KVC_RUNTIME_KERNELS_HOSTKERNELS_H
#define KVC_RUNTIME_KERNELS_HOSTKERNELS_H

#include "kvc/artifact.h"

#include <span>

namespace kvc::gpu {

/// The slots of a kernel hold its one argument, a struct of Args.h.
extern const std::span<const kvc_host_entry> viewKernels;

} // namespace kvc::gpu

#endif // KVC_RUNTIME_KERNELS_HOSTKERNELS_H
