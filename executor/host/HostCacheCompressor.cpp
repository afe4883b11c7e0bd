//===- HostCacheCompressor.cpp - a policy over caches on the host ---------===//

#include "executor/host/HostCacheCompressor.h"

#include "executor/host/HostPolicy.h"
#include "executor/host/HostQueries.h"
#include "runtime/base/Failure.h"
#include "support/Stopwatch.h"

#include <algorithm>

using namespace kvc::rt;

namespace {

class HostCacheCompressor : public CacheCompressor {
public:
  HostCacheCompressor(const PolicyOptions &options, const kvc_target &target,
                      const Transformer &model, std::optional<kvc_dtype> dtype)
      : policy(options, target, model, {KVC_MERGED, KVC_RAGGED}, dtype) {
    begin(1, 1, 1, 0); // says now if the policy is not compiled for such caches
    checkInputs();
  }

  void begin(uint32_t length, uint32_t budget, uint32_t newTokens,
             uint32_t sinceTokens) override {
    policy.begin(length, budget);
    newQueries = newTokens;
    since = sinceTokens;
    // While decoding every run is a little longer than the last.
    constexpr uint32_t ahead = 256;
    if (length > policy.planned)
      policy.planFor(length + ahead);
  }

  void compress(Cache &cache, RecentQueries *recent,
                KeptSequence *told) override {
    Stopwatch watch;
    uint32_t layer = policy.layer;
    RaggedCache &rows = layersOf(cache)[layer];
    auto *queries = static_cast<HostQueries *>(recent);
    checkMerged(rows.merged());
    RaggedCache::Contents all = rows.contents();
    if (!rows.placed())
      throw fail(KVC_BAD_ARGUMENT,
                 "a cache must know its rows' positions to be evicted again");
    LayerSequence sequence;
    sequence.lengths = all.counts.data();
    sequence.positions = all.positions.data();
    sequence.k = all.k.data();
    sequence.v = all.v.data();
    sequence.since = since;
    MemberTable members = tableOf(all.members);
    if (rows.merged())
      sequence.members = &members;
    Elements elements(policy.type);
    std::vector<float> q, lse;
    uint32_t read = queriesRead(policy.tokens, newQueries);
    size_t before = all.positions.size();
    bool whole = before == size_t(policy.model.config.kvHeads) * policy.tokens;
    if (queries && manifest().queries) {
      sequence.queries = std::min(read, queries->count(layer));
      q = queries->last(layer, sequence.queries);
      sequence.q = elements.of(q);
      // As in a prompt: the log-sum-exp is that of fp32 keys.
      if (policy.type == KVC_F32)
        lse = queries->lse(layer, sequence.queries);
      if (!lse.empty())
        sequence.lse = lse.data();
    }
    if (carries()) {
      checkQueries(sequence.queries, read, policy.tokens, whole);
      sequence.newQueries = newQueries;
      for (const std::string &name : manifest().states) {
        auto state = all.states.find(name);
        sequence.states.push_back(
            state == all.states.end() ? nullptr : state->second.data());
      }
    }
    size_t represented = members.rows.size();
    KeptSequence kept = policy.evict(sequence, elements);
    if (kept.past && !carries())
      checkQueries(sequence.queries, read, policy.tokens, whole);
    bool evicts = kept.positions.size() < before ||
                  kept.members.rows.size() < represented;
    if (evicts && queries)
      queries->evicted(layer);
    if (evicts || carries()) {
      rows.clear();
      rows.append(kept.counts, kept.k.data(), kept.v.data(),
                  membersOf(kept.members, 0), kept.positions,
                  policy.statesOf(kept));
    }
    if (told)
      *told = std::move(kept);
    policy.elapsed += watch.seconds();
  }
  void finish() override {}

  const Manifest &manifest() const override { return policy.manifest(); }
  kvc_dtype dtype() const override { return policy.type; }
  bool nanScores() const override { return policy.nan; }
  double seconds() const override { return policy.elapsed; }

private:
  HostPolicy policy;
  uint32_t newQueries = 0, since = 0; // of the run
};

} // namespace

std::unique_ptr<CacheCompressor> kvc::rt::makeHostCacheCompressor(
    const PolicyOptions &options, const kvc_target &target,
    const Transformer &model, std::optional<kvc_dtype> dtype) {
  return std::make_unique<HostCacheCompressor>(options, target, model, dtype);
}
