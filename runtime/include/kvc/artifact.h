/*===- artifact.h - what kvc-opt writes into an object file ---------------===*\
 *
 * `kvc-opt --emit=object` and `--emit=library` define one constant of this
type,
 * named kvc_policy_<name>; a library also exports it as kvc_artifact. It holds
 * the manifest (docs/manifest.md), PTX for each chip and the host kernels.
 *
\*===----------------------------------------------------------------------===*/

#ifndef KVC_ARTIFACT_H
#define KVC_ARTIFACT_H

#include "kvc/simt.h"

#define KVC_ARTIFACT_MAGIC "kvc-art"
#define KVC_ARTIFACT_VERSION 1u

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvc_image {
  const char *chip; /* "sm_90" */
  const char *ptx;  /* zero-terminated */
  uint64_t size;    /* without the zero */
} kvc_image;

typedef struct kvc_host_entry {
  const char *name; /* as in the manifest */
  kvc_host_kernel entry;
  uint64_t shared_bytes;
} kvc_host_entry;

typedef struct kvc_artifact {
  char magic[8];
  uint32_t version;
  uint32_t image_count;
  uint64_t kernel_count;
  const char *manifest; /* zero-terminated JSON */
  uint64_t manifest_size;
  const kvc_image *images;
  const kvc_host_entry *kernels;
} kvc_artifact;

#ifdef __cplusplus
}
#endif

#endif /* KVC_ARTIFACT_H */
