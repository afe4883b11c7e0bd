//===- Eviction.cpp - a compiled policy, run on problems ------------------===//

#include "test/matrix/Eviction.h"

#include <algorithm>

using namespace kvc;
using namespace kvc::test;

std::unique_ptr<rt::Evictor> kvc::test::openEvictor(const std::string &library,
                                                    kvc_target target,
                                                    const Shape &shape,
                                                    const Sequences &sequences,
                                                    kvc_cache_kind cache) {
  target.struct_size = sizeof target;
  auto evictor = std::make_unique<rt::Evictor>(library, target);
  kvc_plan_options plan = {};
  plan.struct_size = sizeof plan;
  plan.head_dim = uint32_t(shape.headDim);
  plan.kv_heads = uint32_t(shape.kvHeads);
  plan.q_heads = uint32_t(shape.kvHeads * shape.group);
  plan.dtype = shape.dtype;
  plan.max_batch = uint32_t(sequences.size());
  for (auto [tokens, budget] : sequences)
    plan.max_tokens = std::max(plan.max_tokens, uint32_t(tokens));
  plan.cache = cache;
  evictor->setPage(8);
  evictor->carryStates(true); // where the policy has any
  evictor->plan(plan);
  return evictor;
}

rt::KeptLayer kvc::test::evict(rt::Evictor &evictor,
                               const std::vector<Problem> &problems,
                               const std::vector<float> *table, bool lse) {
  std::vector<rt::LayerSequence> batch;
  for (const Problem &problem : problems) {
    batch.push_back(problem.sequence());
    if (lse)
      batch.back().lse = problem.lse.data();
  }
  if (table)
    evictor.setTable(*table);
  // Those of the longest sequence have those of the others in front.
  evictor.setAngles(
      std::ranges::max_element(problems, {}, [](const Problem &problem) {
        return problem.angles.size();
      })->angles);
  const reference::Layer &any = problems.front().layer;
  return evictor.evict(batch, 0, true, uint32_t(any.layer),
                       uint32_t(any.layers));
}
