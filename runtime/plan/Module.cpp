//===- Module.cpp - an artefact, opened on a target -----------------------===//

#include "runtime/plan/Module.h"

#include "runtime/base/Failure.h"
#include "runtime/device/Targets.h"
#include "runtime/plan/Seal.h"

#include <cstring>
#include <filesystem>

#include <dlfcn.h>

using namespace kvc::rt;

kvc_module::kvc_module(const kvc_artifact &artifact, const kvc_target &target) {
  open(artifact, target);
}

kvc_module::kvc_module(const std::string &path, const kvc_target &target) {
  // A name without a slash would be searched for in the system's folders.
  if (path.empty())
    throw fail(KVC_BAD_ARGUMENT, "the path of a policy library must not be "
                                 "empty");
  std::string file = std::filesystem::absolute(path).string();
  // Between the two a file may be renamed to this name; then that whole one is
  // opened. Opening what was checked, as /proc/self/fd/N, would be worse: the
  // loader knows libraries by their names, and numbers of files come again.
  checkSeal(file);
  library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw fail(KVC_BAD_ARTIFACT, "cannot open a policy library: {}", dlerror());
  try {
    auto *artifact =
        static_cast<const kvc_artifact *>(dlsym(library, "kvc_artifact"));
    if (!artifact)
      throw fail(KVC_BAD_ARTIFACT,
                 "{}: a policy library must export kvc_artifact; make it with "
                 "kvc-opt --emit=library",
                 path);
    open(*artifact, target);
  } catch (...) {
    dlclose(library);
    throw;
  }
}

kvc_module::~kvc_module() {
  device.reset();
  if (library)
    dlclose(library);
}

void kvc_module::open(const kvc_artifact &artifact, const kvc_target &target) {
  if (std::memcmp(artifact.magic, KVC_ARTIFACT_MAGIC,
                  sizeof KVC_ARTIFACT_MAGIC) != 0)
    throw fail(KVC_BAD_ARTIFACT, "an artifact must begin with '{}'",
               KVC_ARTIFACT_MAGIC);
  if (artifact.version != KVC_ARTIFACT_VERSION)
    throw fail(
        KVC_BAD_ARTIFACT,
        "this runtime reads artifact version {}, got version {}; compile "
        "the policy again",
        KVC_ARTIFACT_VERSION, artifact.version);
  if (!artifact.manifest || (artifact.image_count && !artifact.images) ||
      (artifact.kernel_count && !artifact.kernels))
    throw fail(KVC_BAD_ARTIFACT, "an artifact must have what it counts, got "
                                 "null for manifest, images or kernels");
  manifestText.assign(artifact.manifest, artifact.manifest_size);
  manifest = Manifest::parse(manifestText);
  device = openDevice(artifact, manifest.kernelNames(), target);
}
