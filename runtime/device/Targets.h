//===- Targets.h - the targets that this program can open -----------------===//

#ifndef KVC_RUNTIME_DEVICE_TARGETS_H
#define KVC_RUNTIME_DEVICE_TARGETS_H

#include "runtime/device/Device.h"

namespace kvc::rt {

/// CUDA is always there; others are libraries beside the runtime, which say so.
void enableTarget(kvc_target_kind kind, DeviceFactory factory);

/// Throws Failure where it is none of the targets; `name`: of the field, for that.
void checkTarget(const kvc_target_kind &target, const char *name);

/// True if PTX for `chip` ("sm_90a") runs there. The machine that runs PTX without a GPU
/// runs all that it can read.
bool targetRuns(kvc_target_kind kind, int device, const char *chip);

/// Throws Failure where the target is unknown or was not enabled.
std::unique_ptr<Device> openDevice(const kvc_artifact &artifact,
                                   std::span<const std::string> names,
                                   const kvc_target &target);

} // namespace kvc::rt

#endif // KVC_RUNTIME_DEVICE_TARGETS_H
