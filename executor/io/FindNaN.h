//===- FindNaN.h - whether a tensor holds NaN -----------------------------===//

#ifndef KVC_EXECUTOR_IO_FINDNAN_H
#define KVC_EXECUTOR_IO_FINDNAN_H

#include "executor/io/Safetensors.h"

namespace kvc::rt {

/// The first element that is NaN, or -1. `dtype` is the tensor's type. Large ones are
/// looked through by all cores.
int64_t findNaN(const TensorView &tensor, kvc_dtype dtype);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_IO_FINDNAN_H
