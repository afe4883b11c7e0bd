//===- Ptx.cpp - the executor's kernels as PTX, embedded ------------------===//
//
// KVC_PTX_DIR is the folder in which the build has put the files.
//
//===----------------------------------------------------------------------===//

#include "executor/cuda/Ptx.h"

#define KVC_EMBED(symbol, file)                                                \
  asm(".pushsection .rodata\n" #symbol ":\n"                                   \
      ".incbin \"" KVC_PTX_DIR "/" file "\"\n"                                 \
      ".byte 0\n"                                                              \
      ".popsection\n");                                                        \
  extern "C" __attribute__((visibility("hidden"))) const char symbol[];

KVC_EMBED(kvc_ptx_f32, "kernels_f32.ptx")
KVC_EMBED(kvc_ptx_f16, "kernels_f16.ptx")
KVC_EMBED(kvc_ptx_bf16, "kernels_bf16.ptx")

const char *kvc::gpu::ptxOf(kvc_dtype dtype) {
  return dtype == KVC_F32   ? kvc_ptx_f32
         : dtype == KVC_F16 ? kvc_ptx_f16
                            : kvc_ptx_bf16;
}
