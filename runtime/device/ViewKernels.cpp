//===- ViewKernels.cpp ----------------------------------------------------===//
//
// KVC_PTX_DIR is the folder in which the build has put the PTX; without it there is
// none.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/ViewKernels.h"

#include "runtime/base/DType.h"
#include "runtime/base/EmbedText.h"
#include "runtime/base/Failure.h"
#include "runtime/device/Targets.h"
#include "runtime/kernels/AttentionState.h"

#include <atomic>
#include <mutex>

using namespace kvc;
using namespace kvc::rt;

static constexpr size_t widths = 4;

#ifdef KVC_PTX_DIR
#define KVC_EMBED(type, width)                                                 \
  KVC_EMBED_TEXT(kvc_ptx_view_##type##_##width,                                \
                 KVC_PTX_DIR "/view_" #type "_" #width ".ptx")
#define KVC_EMBED_TYPE(type)                                                   \
  KVC_EMBED(type, 32)                                                          \
  KVC_EMBED(type, 64) KVC_EMBED(type, 128) KVC_EMBED(type, 256)
KVC_EMBED_TYPE(f32)
KVC_EMBED_TYPE(f16)
KVC_EMBED_TYPE(bf16)

#define KVC_TEXTS(type)                                                        \
  {kvc_ptx_view_##type##_32, kvc_ptx_view_##type##_64,                         \
   kvc_ptx_view_##type##_128, kvc_ptx_view_##type##_256}
static const char *const texts[3][widths] = {KVC_TEXTS(f32), KVC_TEXTS(f16),
                                             KVC_TEXTS(bf16)};
#else
static const char *const texts[3][widths] = {};
#endif

/// Of [32, 64, 128, 256].
static size_t widthIndex(uint32_t headDim) {
  return size_t(__builtin_ctz(gpu::attentionWidth(headDim) / 32));
}

static std::unique_ptr<Device> load(kvc_target_kind target, int device,
                                    kvc_dtype dtype, size_t width) {
  const char *text = texts[dtype][width];
  if (!text)
    throw fail(KVC_UNSUPPORTED,
               "this library was built without kernels for "
               "GPUs: target must be 0 (host), got {}",
               int(target));
  auto named = [&](const char *name, const char *end = "") {
    return formatted("{}_{}_{}{}", name, dtypeName(dtype), 32 << width, end);
  };
  std::vector<std::string> names = {named("add_view_parts"),
                                    formatted("append_{}", dtypeName(dtype)),
                                    "append_counts"};
  for (gpu::Sharing sharing :
       {gpu::Sharing::Rows, gpu::Sharing::Keys, gpu::Sharing::Keys32})
    if (sharing != gpu::Sharing::Keys32 ||
        gpu::hasKeys32(uint32_t(dtypeBytes(dtype)), 32u << width))
      names.push_back(named("attend_view", gpu::attentionKernelEnd(sharing)));
  kvc_image image = {"sm_80", text, std::strlen(text)};
  kvc_artifact artifact = {};
  artifact.image_count = 1;
  artifact.images = &image;
  kvc_target open = {};
  open.struct_size = sizeof open;
  open.kind = target;
  open.device = device;
  return openDevice(artifact, names, open);
}

const ViewKernels &ViewKernels::on(kvc_target_kind target, int device,
                                   kvc_dtype dtype, uint32_t headDim) {
  constexpr int mostDevices = 64;
  if (device < 0 || device >= mostDevices)
    throw fail(KVC_BAD_ARGUMENT, "device must be 0 to {}, got {}",
               mostDevices - 1, device);
  // They stay until the process ends, and longer than the driver's own end.
  static std::atomic<const ViewKernels *> loaded[2][mostDevices][3][widths];
  size_t width = widthIndex(headDim);
  auto &slot = loaded[target == KVC_PTX][device][dtype][width];
  if (const ViewKernels *kernels = slot.load(std::memory_order_acquire))
    return *kernels;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (const ViewKernels *kernels = slot.load(std::memory_order_acquire))
    return *kernels;
  auto *kernels = new ViewKernels(load(target, device, dtype, width));
  slot.store(kernels, std::memory_order_release);
  return *kernels;
}
