//===- RowsInput.cpp - what a layer brings beside its cache ---------------===//

#include "test/matrix/RowsInput.h"

#include "test/matrix/Problem.h"

#include <algorithm>

using namespace kvc;
using namespace kvc::test;

/// In three runs of four rows carry something, and the run says what is new: nothing,
/// a few queries or all.
static void addStates(size_t states, const Cache &cache, Random &random,
                      RowsInput &input) {
  if (!states || random() % 4 == 0)
    return;
  for (int32_t length : cache.lengths)
    input.newQueries.push_back(
        int32_t(random() % uint32_t(random() % 2 ? length + 1 : 4)) %
        (length + 1));
  input.states.resize(states);
  for (auto &state : input.states)
    for (const Head &head : cache.all) {
      state.emplace_back();
      for (size_t r = 0; r < head.k.size(); ++r)
        state.back().push_back(float(random() % 1000) / 250);
    }
}

uint32_t kvc::test::queriesRead(PolicyOp policy, uint32_t most) {
  auto queries = uint32_t(queriesFor(policy, 1 << 20));
  policy.walk([&](AttentionOp attention) {
    if (attention.readsAll() || attention.readsNew())
      queries = most;
  });
  return queries;
}

RowsInput kvc::test::drawInput(PolicyOp policy, const Cache &cache,
                               int64_t group, int64_t layer, Random &random) {
  RowsInput input;
  input.layer = layer;
  input.group = uint32_t(group);
  auto qHeads = uint32_t(cache.heads * group);
  int32_t most = std::ranges::max(cache.lengths);
  input.tokens = uint32_t(most);
  input.queries = queriesRead(policy, input.tokens);
  size_t states = 0;
  bool readsState = false, ofMembers = false;
  policy.walk([&](mlir::Operation *op) {
    if (auto keep = mlir::dyn_cast<KeepOp>(op))
      states = keep.getCarried().size();
    readsState |= mlir::isa<KeptLayersOp>(op);
    ofMembers |= llvm::is_contained(needsOf(op).inputs, EngineInput::Members);
  });
  for (uint32_t i = 0; i < cache.batch * qHeads * input.queries; ++i) {
    input.q.push_back(randomRow(random, cache.dim, cache.dtype));
    for (float &x : input.q.back())
      x *= 4; // exact, and sharp enough that scores differ
  }
  for (int32_t length : cache.lengths)
    input.budgets.push_back(1 + int32_t(random() % uint32_t(length)));
  input.hidden = 24;
  for (uint32_t i = 0; i < input.hidden * qHeads; ++i)
    input.wo.push_back(randomRow(random, cache.dim, cache.dtype));
  input.table = Problem::table(8, qHeads);
  for (int64_t i = 0; readsState && i < int64_t(cache.batch) * most; ++i)
    input.keptLayers.push_back(int32_t(random() % uint32_t(layer + 1)));
  addStates(states, cache, random, input);
  for (size_t i = 0; ofMembers && i < cache.all.size(); ++i)
    input.members.push_back(drawMembers(
        cache.all[i].positions, cache.lengths[i / cache.heads], random));
  return input;
}
