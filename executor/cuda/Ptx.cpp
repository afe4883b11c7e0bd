//===- Ptx.cpp - the executor's kernels as PTX, embedded ------------------===//
//
// KVC_PTX_DIR is the folder in which the build has put the files.
//
//===----------------------------------------------------------------------===//

#include "executor/cuda/Ptx.h"

#include "runtime/base/EmbedText.h"

KVC_EMBED_TEXT(kvc_ptx_f32, KVC_PTX_DIR "/kernels_f32.ptx")
KVC_EMBED_TEXT(kvc_ptx_f16, KVC_PTX_DIR "/kernels_f16.ptx")
KVC_EMBED_TEXT(kvc_ptx_bf16, KVC_PTX_DIR "/kernels_bf16.ptx")
KVC_EMBED_TEXT(kvc_ptx_together_f16, KVC_PTX_DIR "/together_f16.ptx")
KVC_EMBED_TEXT(kvc_ptx_together_bf16, KVC_PTX_DIR "/together_bf16.ptx")

const char *kvc::gpu::ptxOf(kvc_dtype dtype) {
  return dtype == KVC_F32   ? kvc_ptx_f32
         : dtype == KVC_F16 ? kvc_ptx_f16
                            : kvc_ptx_bf16;
}

const char *kvc::gpu::togetherPtxOf(kvc_dtype dtype) {
  return dtype == KVC_F32   ? nullptr
         : dtype == KVC_F16 ? kvc_ptx_together_f16
                            : kvc_ptx_together_bf16;
}
