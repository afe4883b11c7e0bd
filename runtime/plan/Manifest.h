//===- Manifest.h - the manifest of an artefact, parsed and checked -------===//

#ifndef KVC_RUNTIME_PLAN_MANIFEST_H
#define KVC_RUNTIME_PLAN_MANIFEST_H

#include "kvc/kvc.h"
#include "runtime/base/Extent.h"
#include "runtime/plan/Arguments.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvc::rt {

/// Parts of a layer's work, as the ABI cuts it. Prepare reads the layer's weights alone;
/// a call that does not bring what it leaves does it in front of Score.
enum class Phase { Prepare, Score, Select, Compact };

struct BufferSpec {
  uint64_t bytes; // of one element of `dims`
  std::vector<Extent> dims;
  unsigned first, last; // kernels between which it lives
};

/// What a 64-bit slot of a launch is filled with.
struct Slot {
  bool scratch;   // buffer `index` of the plan, else
  uint32_t index; // Argument `index`
};

struct KernelSpec {
  std::string name, kind;
  Phase phase;
  uint32_t block; // threads
  /// The same of its form that multiplies by warpgroups.
  uint32_t warpgroupBlock;
  std::vector<Extent> grid; // three
  std::vector<Slot> slots;
  bool skippedWithLse;
  /// Calls of up to so many tokens go without it, and calls of more; 0: none does.
  uint32_t aboveTokens = 0, upToTokens = 0;
  /// Of memory for each block, that its launch on a GPU gives; 0: the kernel has its own.
  uint32_t sharedBytes = 0;

  /// True where it has the argument.
  bool has(Argument argument) const;
  /// True where a call of so many tokens has it.
  bool isFor(uint32_t tokens) const {
    return (!aboveTokens || tokens > aboveTokens) &&
           (!upToTokens || tokens <= upToTokens);
  }
};

struct Variant {
  uint32_t headDim, group;
  kvc_dtype dtype;
  kvc_cache_kind cache = KVC_DENSE;
  /// Where kept rows go; dense: packed.
  kvc_cache_kind into = KVC_DENSE;
  uint32_t vector; // elements of one access along head_dim
  std::vector<KernelSpec> kernels;
  /// Bytes to which the host's kernels want rows aligned; 0: those of `vector`, as the
  /// GPU's do.
  uint32_t hostAlignment = 0;
  /// True where one of the kernels reads the argument.
  bool reads(Argument argument) const;
};

struct ScoresSpec {
  unsigned buffer;
  bool oneHead;
};

struct Manifest {
  std::string policy;
  uint32_t queries;               // last queries that are read, as in kvc.h
  std::optional<uint32_t> window; // protected tokens; empty: depends on B
  /// Where new queries are read: last queries that are read at least.
  std::optional<uint32_t> leastQueries;
  std::vector<std::string> states; // names of what rows carry
  std::optional<unsigned> lseBuffer;
  std::optional<ScoresSpec> scores;
  std::vector<BufferSpec> buffers;
  std::vector<Variant> variants;
  std::map<std::string, double> params;

  /// How many of the last queries are read of a sequence of `tokens` tokens, of which
  /// no earlier run has had `newQueries`; unset: all.
  uint32_t queriesOf(uint32_t tokens,
                     std::optional<uint32_t> newQueries = {}) const;
  /// The same where none is new: what a later run reads of those before.
  uint32_t oldQueries() const { return leastQueries.value_or(queries); }
  /// True where a kernel of a variant reads the argument.
  bool reads(Argument argument) const;
  /// Names of all kernels, variant by variant, in order: what a device loads.
  std::vector<std::string> kernelNames() const;
  /// Throws Failure (KVC_BAD_ARTIFACT) that names the field and the value.
  static Manifest parse(const std::string &text);
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_PLAN_MANIFEST_H
