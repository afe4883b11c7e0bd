//===- Targets.cpp - the targets that this program can open ---------------===//

#include "runtime/device/Targets.h"

#include "runtime/base/Boundary.h"

#include <atomic>

using namespace kvc::rt;

/// By kvc_target_kind.
static std::atomic<DeviceFactory> factories[] = {nullptr, makeCudaDevice,
                                                 nullptr};

void kvc::rt::enableTarget(kvc_target_kind kind, DeviceFactory factory) {
  factories[kind] = factory;
}

void kvc::rt::checkTarget(const kvc_target_kind &target, const char *name) {
  if (size_t(numberOf(target)) >= std::size(factories))
    throw fail(KVC_BAD_ARGUMENT,
               "{} must be 0 (host), 1 (CUDA) or 2 (PTX), got {}", name,
               numberOf(target));
}

bool kvc::rt::targetRuns(kvc_target_kind kind, int device, const char *chip) {
  return kind == KVC_CUDA ? cudaDeviceRuns(device, chip) : kind == KVC_PTX;
}

std::unique_ptr<Device> kvc::rt::openDevice(const kvc_artifact &artifact,
                                            std::span<const std::string> names,
                                            const kvc_target &target) {
  checkTarget(target.kind, "target.kind");
  DeviceFactory factory = factories[target.kind];
  if (!factory)
    throw target.kind == KVC_HOST
        ? fail(KVC_UNSUPPORTED, "the host target must be enabled before it is "
                                "opened: call kvc_enable_host (kvc/host.h)")
        : fail(KVC_UNSUPPORTED, "the PTX target must be enabled before it is "
                                "opened: call kvc_enable_ptx (kvc/ptx.h)");
  return factory(artifact, names, target);
}
