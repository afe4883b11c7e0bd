/*===- artifact.h - what kvc-opt writes into an object file ---------------===*\
 *
 * `kvc-opt --emit=object` and `--emit=library` define one constant of type
 * kvc_artifact, named kvc_policy_<name>; a library also exports it as
 * kvc_artifact. It holds the manifest (docs/manifest.md), PTX for each chip and
 * the host kernels. Behind the ELF file a library has a seal.
 *
\*===----------------------------------------------------------------------===*/

#ifndef KVC_ARTIFACT_H
#define KVC_ARTIFACT_H

#include "kvc/simt.h"

#define KVC_ARTIFACT_MAGIC "kvc-art"
#define KVC_ARTIFACT_VERSION 4u

/* Kernels keep a word of block memory for each KV head in places. */
#define KVC_MAX_KV_HEADS 1024
/* What the parameters of a launch hold on every GPU, 4 KiB. */
#define KVC_MAX_KERNEL_ARGUMENTS 512

/* The most of anything that kernels count: rows, tokens, slots, pages. They compute with
 * 32 bits where sums of three such numbers fit. */
#define KVC_MAX_COUNT 536870911

/* Bits that kernels set in the status word: faults in the data. */
enum {
  KVC_DATA_NAN = 1,      /* a score was NaN; it ranks below every number */
  KVC_DATA_CAPACITY = 2, /* kept rows or members are more than index_capacity,
                          * member_capacity or out_rows; the rest is dropped */
  KVC_DATA_TABLE = 4,    /* an entry of the table is negative or not finite, or
                          * all are 0; such an entry counts as 0 */
  KVC_DATA_CACHE = 8     /* the cache's view is wrong: a length, count, offset or page
                          * is outside, positions do not ascend, or a page that is
                          * written occurs twice. What was kept means nothing; no
                          * row outside its slots was read */
};

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvc_image {
  const char *chip; /* "sm_90" */
  const char *ptx;  /* zero-terminated */
  uint64_t size;    /* without the zero */
} kvc_image;

/* What code needs of the processor that runs it. */
typedef enum kvc_host_processor {
  KVC_ANY_PROCESSOR = 0, /* any of its kind, or the one that the compiler was told */
  KVC_X86_64_V3 = 1,     /* AVX2, FMA and what else the third level has */
  KVC_X86_64_V4 = 2      /* AVX-512 as the fourth level has it */
} kvc_host_processor;

/* A kernel is there once for each processor that its warps are compiled for: the last
 * that a machine has is run. */
typedef struct kvc_host_entry {
  const char *name; /* as in the manifest */
  kvc_host_kernel entry;
  uint64_t shared_bytes;
  kvc_host_kernel warp;    /* the same for a warp at a time; may be null */
  uint64_t warp_processor; /* kvc_host_processor */
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

/* The last bytes of a library, little-endian. They vouch for all before them:
 * what the system's loader believes of a damaged file may end the process, so
 * kvc_module_load looks here first. An object has no seal; the program that
 * links it vouches for it as for its own code. */
#define KVC_SEAL_MAGIC "kvc-library"

typedef struct kvc_library_seal {
  char magic[12];
  uint32_t crc32; /* of the bytes before the seal, as zlib has it */
  uint64_t size;  /* of the file, seal included */
} kvc_library_seal;

#ifdef __cplusplus
}
#endif

#endif /* KVC_ARTIFACT_H */
