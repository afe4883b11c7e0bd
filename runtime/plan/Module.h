//===- Module.h - an artefact, opened on a target -------------------------===//

#ifndef KVC_RUNTIME_PLAN_MODULE_H
#define KVC_RUNTIME_PLAN_MODULE_H

#include "runtime/device/Device.h"
#include "runtime/plan/Manifest.h"

#include <memory>
#include <string>

struct kvc_module {
  /// Opens a linked artefact. Throws Failure.
  kvc_module(const kvc_artifact &artifact, const kvc_target &target);
  /// Opens a library. Throws Failure.
  kvc_module(const std::string &path, const kvc_target &target);
  ~kvc_module();

  std::string manifestText;
  kvc::rt::Manifest manifest;
  std::unique_ptr<kvc::rt::Device> device;

private:
  void open(const kvc_artifact &artifact, const kvc_target &target);
  void *library = nullptr;
};

#endif // KVC_RUNTIME_PLAN_MODULE_H
