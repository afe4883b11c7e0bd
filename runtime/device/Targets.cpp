//===- Targets.cpp - the targets that this program can open ---------------===//

#include "runtime/device/Targets.h"

#include "runtime/base/Failure.h"

#include <atomic>

using namespace kvc::rt;

/// By kvc_target_kind.
static std::atomic<DeviceFactory> factories[] = {nullptr, makeCudaDevice};

void kvc::rt::enableTarget(kvc_target_kind kind, DeviceFactory factory) {
  factories[kind] = factory;
}

std::unique_ptr<Device> kvc::rt::openDevice(const kvc_artifact &artifact,
                                            std::span<const std::string> names,
                                            const kvc_target &target) {
  if (size_t(target.kind) >= std::size(factories))
    throw fail(KVC_BAD_ARGUMENT,
               "target.kind must be 0 (host) or 1 (CUDA), "
               "got {}",
               int(target.kind));
  DeviceFactory factory = factories[target.kind];
  if (!factory)
    throw fail(KVC_UNSUPPORTED, "the host target must be enabled before it is "
                                "opened: call kvc_enable_host (kvc/host.h)");
  return factory(artifact, names, target);
}
