//===- Evictor.h - a policy applied to layers that live on the host -------===//
//
// What `kvc-run` needs on top of a plan: device memory, copies, and results as
// vectors. Modules and plans are used as the C++ classes behind kvc/kvc.h.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_EVICTION_EVICTOR_H
#define KVC_EXECUTOR_EVICTION_EVICTOR_H

#include "executor/eviction/KeptLayer.h"
#include "runtime/plan/Plan.h"

#include <memory>
#include <string>
#include <vector>

namespace kvc::rt {

class LayerCall;

/// Where the policy runs: "host", "cuda", "ptx", or "" for cuda where a device
/// answers. Throws Failure for another name.
kvc_target chooseTarget(const std::string &name, uint64_t seed = 0);
const char *targetName(const kvc_target &target);

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
  /// A layer's projection is the same in every call with one sequence, so that what
  /// depends on it alone is made once, until the next plan.
  void keepPrepared() { prepares = true; }
  /// What rows carry is computed for all of them, from the next layer on.
  void carryStates(bool carry) { carries = carry; }
  /// Each layer is one call that selects and compacts, with room for all rows, as in an
  /// engine that does not wait for how many are kept.
  void runAtOnce() { atOnce = true; }
  /// Cosine and sine of every angle of a position, [positions, d / 2, 2], for members
  /// of merged rows: of as many positions as there are tokens at least.
  void setAngles(std::vector<float> table) { angles = std::move(table); }
  /// Slots of a page, where the plan is for a paged cache; a power of two.
  void setPage(uint32_t rows) { pageRows = rows; }
  /// Kept rows stay in the cache's own slots, toward its tail or not, where the plan's
  /// `into` is of the cache's kind.
  void setTail(bool tail) { toTail = tail; }

  kvc_module &opened() { return *module; }
  const Manifest &manifest() const { return module->manifest; }

private:
  std::unique_ptr<kvc_module> module;
  std::unique_ptr<kvc_plan> current;
  std::vector<float> table, angles;
  uint32_t pageRows = 1;
  bool carries = false, toTail = false, prepares = false, atOnce = false;
  /// What is kept of layers' projections, by layer.
  struct Prepared;
  std::unique_ptr<Prepared> prepared;
  /// Gives the call what is prepared of its layer; of the first one, makes it.
  void bringPrepared(LayerCall &call, uint32_t layer);
  /// State of the running sequences, and the layer that comes next.
  struct State;
  std::unique_ptr<State> state;
  /// The state that a layer finds, a word per token: [batch, tokens].
  int32_t *stateOf(size_t batch, uint32_t tokens, uint32_t layer);
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_EVICTOR_H
