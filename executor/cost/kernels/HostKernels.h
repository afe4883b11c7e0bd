//===- HostKernels.h - the kernels of measure-card, for the host -----------===//

#ifndef KVC_EXECUTOR_COST_KERNELS_HOSTKERNELS_H
#define KVC_EXECUTOR_COST_KERNELS_HOSTKERNELS_H

#include "kvc/artifact.h"

#include <span>

namespace kvc::gpu {

/// The slots of a kernel hold its one argument, CardArgs.
extern const std::span<const kvc_host_entry> cardKernels;

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_COST_KERNELS_HOSTKERNELS_H
