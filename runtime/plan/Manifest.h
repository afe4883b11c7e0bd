//===- Manifest.h - the manifest of an artefact, parsed and checked -------===//

#ifndef KVC_RUNTIME_PLAN_MANIFEST_H
#define KVC_RUNTIME_PLAN_MANIFEST_H

#include "kvc/kvc.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvc::rt {

struct BufferSpec {
  uint64_t bytes;                // of one element of `dims`
  std::vector<std::string> dims; // extents, see Extent.h
  unsigned first, last;          // kernels between which it lives
};

struct KernelSpec {
  std::string name, kind;
  uint32_t block;
  std::array<std::string, 3> grid;
  std::vector<std::string> args;
  bool skippedWithLse;
};

struct Variant {
  uint32_t headDim, group;
  kvc_dtype dtype;
  uint32_t vector; // elements of one access along head_dim
  std::vector<KernelSpec> kernels;
};

struct ScoresSpec {
  unsigned buffer;
  bool oneHead;
};

struct Manifest {
  std::string policy;
  uint32_t queries;               // last queries that are read, as in kvc.h
  std::optional<uint32_t> window; // protected tokens; empty: depends on B
  std::optional<unsigned> lseBuffer;
  std::optional<ScoresSpec> scores;
  std::vector<BufferSpec> buffers;
  std::vector<Variant> variants;
  std::map<std::string, double> params;

  /// True where a kernel reads the argument `name`.
  bool reads(const std::string &name) const;
  /// Throws Failure (KVC_BAD_ARTIFACT) that names the field and the value.
  static Manifest parse(const std::string &text);
};

const char *dtypeName(kvc_dtype dtype);
size_t dtypeBytes(kvc_dtype dtype);
std::optional<kvc_dtype> parseDtype(const std::string &name);

} // namespace kvc::rt

#endif // KVC_RUNTIME_PLAN_MANIFEST_H
