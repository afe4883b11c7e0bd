//===- Evictor.h - a policy applied to layers that live on the host -------===//
//
// What `kvc-run` needs on top of the C ABI: device memory, copies, and results
// as vectors. It knows policies through kvc/kvc.h only.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_EVICTION_EVICTOR_H
#define KVC_EXECUTOR_EVICTION_EVICTOR_H

#include "runtime/plan/Plan.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace kvc::rt {

/// Where the policy runs: "host", "cuda", or "" for cuda where a device
/// answers. Throws Failure for another name.
kvc_target chooseTarget(const std::string &name, uint64_t seed = 0);
const char *targetName(const kvc_target &target);

/// One sequence of one layer: rows of elements of the plan's type.
struct LayerSequence {
  uint32_t tokens = 0;             // T
  const std::byte *k = nullptr;    // [Hkv, T, d]
  const std::byte *v = nullptr;    // [Hkv, T, d]
  const std::byte *kRaw = nullptr; // [Hkv, T, d], keys before RoPE; or null
  const std::byte *q = nullptr;    // [Hq, queries, d], the last queries
  uint32_t queries = 0;
  const float *lse = nullptr;    // [Hq, queries], natural; or null
  uint32_t budget = 0;           // B
  const std::byte *wo = nullptr; // [hidden, Hq * d]; or null
  uint32_t hidden = 0;
};

/// What the rows of a merging policy represent, head after head.
struct MemberTable {
  std::vector<int32_t> counts;          // [Hkv]
  std::vector<int32_t> rows, positions; // [sum of counts]
  std::vector<float> norms;             // [sum of counts]
};

struct KeptSequence {
  std::vector<int32_t> counts;  // [Hkv]
  std::vector<int32_t> indices; // [sum of counts]
  std::vector<std::byte> k, v;  // [sum of counts, d]
  uint32_t past = 0;            // tokens ranked, 0 if none were
  std::vector<float> scores;    // [Hkv, past]
  MemberTable members;          // empty where the policy does not merge
};

struct KeptLayer {
  std::vector<KeptSequence> sequences;
  bool nanScores = false;
};

class Evictor {
public:
  /// Throws Failure.
  Evictor(const std::string &library, const kvc_target &target);
  ~Evictor();

  /// Must be called before evict; limits as in kvc_plan_options.
  void plan(const kvc_plan_options &options);
  /// Gives the importance of heads to a policy that reads it: [layers, Hq].
  void setTable(std::vector<float> importance);
  /// One layer of a batch. `scores` asks for the scores too. Where the policy
  /// carries state, layers must come in order, from 0, with the same lengths.
  KeptLayer evict(const std::vector<LayerSequence> &batch, float scale,
                  bool scores, uint32_t layer = 0, uint32_t layers = 1);

  const Manifest &manifest() const { return module->manifest; }

private:
  std::unique_ptr<kvc_module> module;
  std::unique_ptr<kvc_plan> current;
  std::vector<float> table;
  /// State of the running sequences, and the layer that comes next.
  struct State;
  std::unique_ptr<State> state;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_EVICTOR_H
