//===- Placing.cpp - kept rows in a view that an engine would have --------===//

#include "test/random/Placing.h"

#include "runtime/base/DType.h"

#include <algorithm>
#include <cmath>

using namespace kvc;
using namespace kvc::random;
using namespace kvc::test;

Place kvc::random::placeOf(const Case &c) {
  Place place = {c.cache, c.into, false, false, c.place / 4};
  if (c.cache == KVC_MERGED) // in pages every other time
    place.cache =
        c.into == KVC_PAGED || c.place / 4 % 2 ? KVC_PAGED : KVC_RAGGED;
  place.inPlace = c.place % 2 && place.canBeInPlace();
  place.tail = c.place / 2 % 2;
  return place;
}

kvc_cache_kind kvc::random::planned(const Case &c) {
  return c.cache != KVC_MERGED           ? c.cache
         : placeOf(c).cache == KVC_PAGED ? KVC_MERGED_PAGED
                                         : KVC_MERGED;
}

namespace {

/// Vectors of d numbers behind each other.
using Rows = std::vector<std::vector<float>>;

Rows rowsOf(const void *bytes, size_t count, const Shape &shape) {
  auto d = size_t(shape.headDim);
  auto *from = static_cast<const std::byte *>(bytes);
  Rows rows;
  for (size_t i = 0; i < count; ++i)
    rows.push_back(rt::widened(from + i * d * rt::dtypeBytes(shape.dtype), d,
                               shape.dtype));
  return rows;
}

/// One head's part of lists in which heads lie behind each other.
struct Part {
  size_t first = 0, count = 0;

  void next(int32_t number) {
    first += count;
    count = size_t(number);
  }
  template <typename T> std::vector<T> of(const std::vector<T> &all) const {
    if (all.empty())
      return {};
    auto from = all.begin() + ptrdiff_t(first);
    return {from, from + ptrdiff_t(count)};
  }
  HeadMembers of(const rt::MemberTable &all) const {
    return {of(all.rows), of(all.positions), of(all.norms)};
  }
};

/// What the problems are to a call that knows caches alone.
class Call {
public:
  Call(const Shape &shape, PolicyOp policy,
       const std::vector<Problem> &problems)
      : shape(shape), heads(size_t(shape.kvHeads)) {
    cache = {uint32_t(problems.size()),
             uint32_t(shape.kvHeads),
             uint32_t(shape.headDim),
             shape.dtype,
             {},
             {}};
    const reference::Layer &any = problems.front().layer;
    input.group = uint32_t(shape.group);
    input.hidden = uint32_t(any.hidden);
    input.layer = any.layer;
    input.layers = any.layers;
    input.tokens = 0;
    for (const Problem &problem : problems) {
      const reference::Layer &layer = problem.layer;
      input.tokens = std::max(input.tokens, uint32_t(layer.tokens));
      input.states.resize(std::max(input.states.size(), problem.states.size()));
      saysNew |= layer.newQueries.has_value();
      cache.lengths.push_back(int32_t(layer.tokens));
    }
    input.queries = queriesRead(policy, input.tokens);
    raw = cache;
    for (const Problem &problem : problems) {
      addNumbers(problem);
      addHeads(problem);
    }
  }

  Cache cache,
      raw; // the latter without heads where all keys are those before RoPE
  RowsInput input;

private:
  const Shape &shape;
  size_t heads;
  bool saysNew = false; // some sequence says how many queries are new

  void addNumbers(const Problem &problem) {
    const reference::Layer &layer = problem.layer;
    input.budgets.push_back(int32_t(layer.budget));
    if (layer.members)
      input.since.push_back(int32_t(layer.since));
    if (saysNew)
      input.newQueries.push_back(
          int32_t(layer.newQueries.value_or(layer.queries)));
    auto qHeads = size_t(layer.qHeads), have = size_t(layer.queries);
    Rows q = rowsOf(problem.q.data(), qHeads * have, shape);
    Part own;
    for (size_t h = 0; h < qHeads; ++h) {
      // Queries of tokens that a sequence does not have are nobody's.
      input.q.resize(input.q.size() + input.queries - have,
                     std::vector<float>(size_t(shape.headDim), NAN));
      own.next(int32_t(have));
      std::ranges::copy(own.of(q), std::back_inserter(input.q));
    }
    std::ranges::copy(
        rowsOf(problem.wo.data(), size_t(layer.hidden) * qHeads, shape),
        std::back_inserter(input.wo));
  }

  void addHeads(const Problem &problem) {
    rt::LayerSequence sequence = problem.sequence();
    std::vector<int32_t> lengths = problem.lengths;
    std::vector<int32_t> positions = problem.positions;
    if (problem.layer.rows.empty()) { // a prompt
      auto tokens = int32_t(problem.layer.tokens);
      lengths.assign(heads, tokens);
      for (size_t i = 0; i < heads * size_t(tokens); ++i)
        positions.push_back(int32_t(i) % tokens);
    }
    size_t rows = positions.size();
    Rows k = rowsOf(sequence.k, rows, shape),
         v = rowsOf(sequence.v, rows, shape),
         kRaw = rowsOf(sequence.kRaw, sequence.members ? 0 : rows, shape);
    Part own, members;
    for (size_t g = 0; g < heads; ++g) {
      own.next(lengths[g]);
      cache.all.push_back({own.of(positions), own.of(k), own.of(v)});
      if (!sequence.members)
        raw.all.push_back({own.of(positions), own.of(kRaw), own.of(v)});
      for (size_t j = 0; j < input.states.size(); ++j) {
        std::vector<float> &state = input.states[j].emplace_back(own.count);
        if (!sequence.states.empty())
          std::copy_n(sequence.states[j] + own.first, own.count, state.begin());
      }
      if (!sequence.members)
        continue;
      members.next(sequence.members->counts[g]);
      input.members.push_back(members.of(*sequence.members));
    }
  }
};

/// NaN has many forms; bytes with that of this conversion.
std::vector<std::byte> converted(const rt::Bytes &bytes, const Part &own,
                                 const Shape &shape) {
  size_t row = size_t(shape.headDim) * rt::dtypeBytes(shape.dtype);
  std::vector<std::byte> result;
  for (const std::vector<float> &numbers :
       rowsOf(bytes.data() + own.first * row, own.count, shape)) {
    auto one = rt::narrow(numbers.data(), numbers.size(), shape.dtype);
    result.insert(result.end(), one.begin(), one.end());
  }
  return result;
}

/// What was packed, as a call of caches has it.
RowsResult resultOf(const rt::KeptLayer &packed, const Shape &shape,
                    const RowsInput &input) {
  RowsResult result;
  result.keptLayers = input.keptLayers;
  result.status = packed.nanScores ? KVC_DATA_NAN : 0;
  auto heads = size_t(shape.kvHeads);
  for (size_t s = 0; s < packed.sequences.size(); ++s) {
    const rt::KeptSequence &sequence = packed.sequences[s];
    Part own, members;
    std::vector<bool> counted(input.tokens);
    for (size_t g = 0; g < heads; ++g) {
      own.next(sequence.counts[g]);
      RowsKept &kept = result.heads.emplace_back();
      kept.indices = own.of(sequence.indices);
      kept.positions = sequence.positions.empty() ? kept.indices
                                                  : own.of(sequence.positions);
      kept.k = converted(sequence.k, own, shape);
      kept.v = converted(sequence.v, own, shape);
      for (const std::vector<float> &state : sequence.states)
        kept.states.push_back(own.of(state));
      for (int32_t t : kept.positions) {
        if (!input.keptLayers.empty())
          result.keptLayers[s * input.tokens + size_t(t)] +=
              !counted[size_t(t)];
        counted[size_t(t)] = true;
      }
      if (sequence.members.counts.empty())
        continue;
      members.next(sequence.members.counts[g]);
      kept.members = members.of(sequence.members);
    }
  }
  return result;
}

} // namespace

Faults
kvc::random::judgePlaced(kvc_module *module, const Case &c, PolicyOp policy,
                         const std::vector<Problem> &problems,
                         const std::vector<float> *table,
                         const std::vector<std::vector<double>> &keptLayers,
                         const rt::KeptLayer &packed) {
  Call call(c.shape, policy, problems);
  if (table)
    call.input.table = *table;
  for (const std::vector<double> &counts : keptLayers)
    for (size_t t = 0; t < call.input.tokens; ++t)
      call.input.keptLayers.push_back(t < counts.size() ? int32_t(counts[t])
                                                        : 0);
  return judgePlace(module, placeOf(c), call.cache,
                    call.raw.all.empty() ? nullptr : &call.raw, call.input,
                    resultOf(packed, c.shape, call.input));
}
