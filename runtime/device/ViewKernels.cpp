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
// Of sm_90a: for four warps that multiply together.
#define KVC_EMBED_TOGETHER(type, width)                                        \
  KVC_EMBED_TEXT(kvc_ptx_together_##type##_##width,                            \
                 KVC_PTX_DIR "/together_" #type "_" #width ".ptx")
#define KVC_EMBED_TYPE_TOGETHER(type)                                          \
  KVC_EMBED_TOGETHER(type, 64)                                                 \
  KVC_EMBED_TOGETHER(type, 128) KVC_EMBED_TOGETHER(type, 256)
KVC_EMBED_TYPE_TOGETHER(f16)
KVC_EMBED_TYPE_TOGETHER(bf16)

#define KVC_TEXTS(type)                                                        \
  {kvc_ptx_view_##type##_32, kvc_ptx_view_##type##_64,                         \
   kvc_ptx_view_##type##_128, kvc_ptx_view_##type##_256}
static const char *const texts[3][widths] = {KVC_TEXTS(f32), KVC_TEXTS(f16),
                                             KVC_TEXTS(bf16)};
#define KVC_TEXTS_TOGETHER(type)                                               \
  {nullptr, kvc_ptx_together_##type##_64, kvc_ptx_together_##type##_128,       \
   kvc_ptx_together_##type##_256}
static const char *const textsTogether[3][widths] = {
    {}, KVC_TEXTS_TOGETHER(f16), KVC_TEXTS_TOGETHER(bf16)};
#else
static const char *const texts[3][widths] = {},
                         *const textsTogether[3][widths] = {};
#endif

/// Of [32, 64, 128, 256].
static size_t widthIndex(uint32_t headDim) {
  return size_t(__builtin_ctz(gpu::attentionWidth(headDim) / 32));
}

static ViewKernels *load(kvc_target_kind target, int device, kvc_dtype dtype,
                         size_t width) {
  const char *text = texts[dtype][width],
             *textTogether = textsTogether[dtype][width];
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
  bool together = textTogether && targetRuns(target, device, "sm_90a");
  for (gpu::Sharing sharing : gpu::allSharings)
    if (gpu::hasSharing(uint32_t(dtypeBytes(dtype)), 32u << width, sharing,
                        together))
      names.push_back(named("attend_view", gpu::attentionKernelEnd(sharing)));
    else
      names.push_back(names.front());
  std::vector<kvc_image> images = {{"sm_80", text, std::strlen(text)}};
  if (together)
    images.push_back({"sm_90a", textTogether, std::strlen(textTogether)});
  kvc_artifact artifact = {};
  artifact.image_count = uint32_t(images.size());
  artifact.images = images.data();
  kvc_target open = {};
  open.struct_size = sizeof open;
  open.kind = target;
  open.device = device;
  return new ViewKernels(openDevice(artifact, names, open), together);
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
  const ViewKernels *kernels = load(target, device, dtype, width);
  slot.store(kernels, std::memory_order_release);
  return *kernels;
}
