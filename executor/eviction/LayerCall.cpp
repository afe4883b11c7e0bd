//===- LayerCall.cpp - one layer's way through a plan ---------------------===//

#include "executor/eviction/LayerCall.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "runtime/cache/CacheView.h"

#include <algorithm>
#include <cstring>

using namespace kvc::rt;

LayerCall::LayerCall(const kvc_plan &plan,
                     const std::vector<LayerSequence> &batch, float scale,
                     uint32_t layer, uint32_t layers, uint32_t pageRows)
    : plan(plan), info(plan.query()), batch(batch), arena(*plan.module.device),
      heads(plan.options.kv_heads),
      rowBytes(plan.options.head_dim * dtypeBytes(plan.options.dtype)) {
  args.struct_size = sizeof args;
  args.layer = layer;
  args.layers = layers;
  args.scale = scale;
  setSequences();
  hasRows() ? setRows(pageRows) : setCache();
  if (info.queries)
    setQueries();
  if (info.row_states)
    setRowStates();
  if (plansMembers(plan.options.cache))
    setMembers();
  if (plan.module.manifest.reads(Argument::since))
    setSince();
  if (info.inputs & KVC_READS_WO)
    setProjection();
  setOutputs();
}

void LayerCall::setSequences() {
  std::vector<int32_t> lengths, budgets;
  for (const LayerSequence &sequence : batch) {
    tokens = std::max(tokens, sequence.tokens);
    lengths.push_back(int32_t(sequence.tokens));
    budgets.push_back(int32_t(std::min<uint32_t>(sequence.budget, INT32_MAX)));
  }
  args.batch = uint32_t(batch.size());
  args.tokens = tokens;
  int32_t *all = arena.upload(lengths);
  if (hasRows())
    cache.lengths = all;
  else
    args.lengths = all;
  args.budgets = arena.upload(budgets);
}

/// True where kernels can read what the caller has, which they never write: no copy.
bool LayerCall::liesWell(const std::byte *memory) const {
  // A log-sum-exp is of f32 whatever the rows are.
  uint64_t wanted = std::max<uint64_t>(plan.rowAlignment(), sizeof(float));
  return memory && reinterpret_cast<uintptr_t>(memory) % wanted == 0;
}

/// Sequences are padded to the longest: the cache behind its rows, queries in
/// front, so that the last row is the last query's.
LayerCall::Packed LayerCall::pack(const Source &source, size_t packedHeads,
                                  size_t rows, size_t bytes) {
  const LayerSequence &only = batch[0];
  const std::byte *from = source.pointer(only);
  size_t present = source.rows(only);
  if (onePlace() && present >= rows && from) {
    from += source.last ? (present - rows) * bytes : 0;
    if (liesWell(from))
      return {const_cast<std::byte *>(from), present};
  }
  auto *memory =
      arena.zeros<std::byte>(batch.size() * packedHeads * rows * bytes);
  for (size_t s = 0; s < batch.size(); ++s) {
    const std::byte *data = source.pointer(batch[s]);
    size_t have = source.rows(batch[s]), used = std::min(have, rows);
    size_t first = source.last ? rows - used : 0;
    for (size_t h = 0; data && h < packedHeads; ++h)
      arena.device.upload(
          memory + ((s * packedHeads + h) * rows + first) * bytes,
          data + (h * have + have - used) * bytes, used * bytes);
  }
  return {memory, rows};
}

kvc_rows LayerCall::rowsOf(const Packed &packed, size_t packedHeads) const {
  int64_t d = plan.options.head_dim;
  return {packed.memory, int64_t(packedHeads * packed.headRows) * d,
          int64_t(packed.headRows) * d, d};
}

void LayerCall::setCache() {
  auto cache = [&](const std::byte *(*pointer)(const LayerSequence &)) {
    auto rows = [](const LayerSequence &s) { return size_t(s.tokens); };
    return rowsOf(pack({pointer, rows, false}, heads, tokens, rowBytes), heads);
  };
  args.k = cache([](const LayerSequence &s) { return s.k; });
  args.v = cache([](const LayerSequence &s) { return s.v; });
  if (info.inputs & KVC_READS_RAW_KEYS)
    args.k_raw = cache([](const LayerSequence &s) { return s.kRaw; });
}

size_t LayerCall::rowsOf(size_t s, size_t h) const {
  return batch[s].lengths ? size_t(batch[s].lengths[h]) : batch[s].tokens;
}

void LayerCall::setRows(uint32_t pageRows) {
  std::vector<int32_t> counts;
  for (size_t s = 0; s < batch.size(); ++s)
    for (size_t h = 0; h < heads; ++h)
      counts.push_back(int32_t(rowsOf(s, h)));
  bool paged = plansPages(plan.options.cache);
  const LaidRows &all =
      laid.emplace(arena, std::move(counts), heads, paged ? pageRows : 0);
  auto place = [&](auto field, size_t bytes) {
    std::vector<const void *> data;
    for (const LayerSequence &sequence : batch)
      data.push_back(sequence.*field);
    return all.place(data, bytes);
  };
  int64_t d = plan.options.head_dim;
  cache.struct_size = sizeof cache;
  cache.kind = paged ? KVC_PAGED : KVC_RAGGED;
  cache.dtype = plan.options.dtype;
  cache.batch = uint32_t(batch.size());
  cache.kv_heads = uint32_t(heads);
  cache.head_dim = plan.options.head_dim;
  cache.k = all.plane(place(&LayerSequence::k, rowBytes), d);
  cache.v = all.plane(place(&LayerSequence::v, rowBytes), d);
  all.describe(cache);
  // A sequence without rows may have none.
  if (std::any_of(batch.begin(), batch.end(),
                  [](const LayerSequence &s) { return s.positions; })) {
    cache.positions =
        all.plane(place(&LayerSequence::positions, sizeof(int32_t)), 1);
    cache.positions_by_slot = 1;
  }
  if (info.inputs & KVC_READS_RAW_KEYS)
    args.k_raw = {place(&LayerSequence::kRaw, rowBytes), 0, 0, d};
  args.cache = &cache;
}

void LayerCall::moveInPlace(bool toTail) {
  into = cache;
  into.members = nullptr; // which lie apart
  // A prompt's rows get positions when some of them go.
  if (!into.positions.data) {
    into.positions = laid->plane(laid->place({}, sizeof(int32_t)), 1);
    into.positions_by_slot = 1;
  }
  args.into = &into;
  args.pack_to_tail = toTail;
  if (cache.kind == KVC_PAGED)
    args.freed_pages = arena.zeros<int32_t>(batch.size() * heads * 2);
}

uint32_t LayerCall::queriesRead() {
  uint32_t most = 0;
  std::vector<int32_t> counts;
  for (const LayerSequence &s : batch) {
    counts.push_back(int32_t(s.newQueries.value_or(s.tokens)));
    most = std::max(most, uint32_t(counts.back()));
  }
  if (info.inputs & KVC_READS_NEW_QUERIES)
    args.new_queries = arena.upload(counts);
  // Where nothing is new the plan wants to see one.
  return std::max(plan.module.manifest.queriesOf(tokens, most), 1u);
}

/// [states][batch][heads][tokens], by row: in the place of what rows have carried.
void LayerCall::setIntoStates() {
  if (!args.row_states.data) {
    size_t ofState = batch.size() * heads * tokens;
    args.into_states = {arena.zeros<float>(info.row_states * ofState),
                        int64_t(ofState),
                        int64_t(heads) * tokens,
                        tokens,
                        1,
                        0,
                        0};
  } else {
    args.into_states = args.row_states;
  }
}

/// [states][batch][heads][tokens], by row; nothing where no sequence has any.
void LayerCall::setRowStates() {
  if (std::all_of(batch.begin(), batch.end(),
                  [](const LayerSequence &s) { return s.states.empty(); }))
    return;
  size_t ofState = batch.size() * heads * tokens;
  auto *memory = arena.zeros<float>(info.row_states * ofState);
  for (size_t j = 0; j < info.row_states; ++j)
    for (size_t s = 0; s < batch.size(); ++s) {
      if (j >= batch[s].states.size() || !batch[s].states[j])
        continue;
      const float *next = batch[s].states[j];
      for (size_t h = 0; h < heads; next += rowsOf(s, h++))
        arena.device.upload(memory + j * ofState + (s * heads + h) * tokens,
                            next, rowsOf(s, h) * sizeof(float));
    }
  args.row_states = {
      memory, int64_t(ofState), int64_t(heads) * tokens, tokens, 1, 0, 0};
}

/// [batch][heads][capacity]
void LayerCall::setMembers() {
  size_t capacity = 1;
  std::vector<int32_t> counts;
  for (const LayerSequence &s : batch)
    for (size_t h = 0; h < heads; ++h) {
      counts.push_back(s.members ? s.members->counts[h] : 0);
      capacity = std::max(capacity, size_t(counts.back()));
    }
  auto place = [&](const auto MemberTable::*field) {
    using Number =
        typename std::decay_t<decltype(MemberTable().*field)>::value_type;
    auto *memory = arena.zeros<Number>(counts.size() * capacity);
    for (size_t s = 0; s < batch.size(); ++s) {
      size_t first = 0;
      for (size_t h = 0; h < heads; ++h) {
        size_t own = size_t(counts[s * heads + h]);
        if (own)
          arena.device.upload(memory + (s * heads + h) * capacity,
                              (batch[s].members->*field).data() + first,
                              own * sizeof(Number));
        first += own;
      }
    }
    return memory;
  };
  members.struct_size = sizeof members;
  members.rows = place(&MemberTable::rows);
  members.positions = place(&MemberTable::positions);
  members.norms = place(&MemberTable::norms);
  members.counts = arena.upload(counts);
  members.capacity = uint32_t(capacity);
  cache.members = &members;
}

void LayerCall::setSince() {
  std::vector<int32_t> since;
  for (const LayerSequence &s : batch)
    since.push_back(int32_t(s.since));
  args.since = arena.upload(since);
}

void LayerCall::setAngles(const std::vector<float> &angles) {
  // Kernels only read them.
  args.rope = arena.device.onHost() ? angles.data() : arena.upload(angles);
  args.rope_positions = uint32_t(angles.size() / plan.options.head_dim);
}

void LayerCall::setQueries() {
  uint32_t queries = queriesRead();
  size_t queryHeads = plan.options.q_heads;
  auto rows = [](const LayerSequence &s) { return size_t(s.queries); };
  Source q{[](const LayerSequence &s) { return s.q; }, rows, true};
  args.q = rowsOf(pack(q, queryHeads, queries, rowBytes), queryHeads);
  args.q_rows = queries;
  if (!std::all_of(batch.begin(), batch.end(),
                   [](const LayerSequence &s) { return s.lse; }))
    return;
  Source lse{[](const LayerSequence &s) {
               return reinterpret_cast<const std::byte *>(s.lse);
             },
             rows, true};
  Packed packed = pack(lse, queryHeads, queries, sizeof(float));
  args.lse = reinterpret_cast<float *>(packed.memory);
  args.lse_rows = queries;
  args.lse_head_stride = int64_t(packed.headRows);
  args.lse_batch_stride = int64_t(packed.headRows * queryHeads);
}

void LayerCall::setProjection() {
  // Nobody reads it where nothing is scored, but the plan wants to see one.
  args.hidden = 1;
  for (const LayerSequence &sequence : batch)
    args.hidden = std::max(args.hidden, sequence.hidden);
  size_t bytes = args.hidden * plan.options.q_heads * rowBytes;
  std::byte *memory = const_cast<std::byte *>(batch[0].wo);
  if (!onePlace() || !liesWell(memory)) {
    memory = arena.zeros<std::byte>(batch.size() * bytes);
    for (size_t s = 0; s < batch.size(); ++s)
      if (batch[s].wo)
        arena.device.upload(memory + s * bytes, batch[s].wo, bytes);
  }
  int64_t d = plan.options.head_dim, width = d * plan.options.q_heads;
  args.wo = {memory, width * args.hidden, d, width};
}

void LayerCall::setPrepared(void *memory, bool filled) {
  args.prepared = memory;
  args.prepared_bytes = info.prepared_bytes;
  if (!filled)
    plan.prepare(args, nullptr);
}

void LayerCall::setTable(const std::vector<float> &table) {
  args.table = arena.upload(table);
}

void LayerCall::setState(int32_t *memory) {
  args.state = memory;
  args.state_rows = tokens;
}

void LayerCall::setOutputs() {
  size_t rows = batch.size() * heads;
  args.index_capacity = tokens; // a head never keeps more than all
  args.indices = arena.fresh<int32_t>(rows * tokens);
  args.counts = arena.zeros<int32_t>(rows);
  args.past = arena.zeros<int32_t>(hasRows() ? rows : batch.size());
  args.status = arena.zeros<int32_t>(1);
  args.offsets = arena.zeros<int32_t>(rows);
  if (info.inputs & KVC_MERGES) {
    args.member_capacity = tokens;
    args.member_rows = arena.zeros<int32_t>(rows * tokens);
    args.member_positions = arena.zeros<int32_t>(rows * tokens);
    args.member_norms = arena.zeros<float>(rows * tokens);
    args.member_counts = arena.zeros<int32_t>(rows);
  }
  args.workspace = arena.fresh<std::byte>(info.workspace_bytes);
  args.workspace_bytes = info.workspace_bytes;
}

void LayerCall::makeCache(const std::vector<int32_t> &counts) {
  if (args.into)
    return;
  for (size_t s = 0; s < batch.size(); ++s) {
    size_t sum = 0;
    for (size_t h = 0; h < heads; ++h)
      sum += size_t(counts[s * heads + h]);
    outRows = std::max(outRows, sum);
  }
  args.out_rows = uint32_t(outRows);
  size_t bytes = batch.size() * outRows * rowBytes;
  auto place = [&](Bytes &kept) -> void * {
    if (!onePlace())
      return arena.fresh<std::byte>(bytes);
    kept.resize(bytes);
    return kept.data();
  };
  args.k_out = place(keptKeys);
  args.v_out = place(keptValues);
  if (hasRows())
    args.positions_out = arena.zeros<int32_t>(batch.size() * outRows);
  if (carries)
    args.row_states_out =
        arena.zeros<float>(info.row_states * batch.size() * outRows);
}

KeptLayer LayerCall::run(bool scores) {
  // Scoring asks only whether there is a place; the one that is written to is as large
  // as what was kept.
  if (carries && args.into)
    setIntoStates();
  else if (carries)
    args.row_states_out = arena.zeros<float>(1);
  if (atOnce) {
    makeCache(std::vector(batch.size() * heads, int32_t(tokens)));
    plan.enqueue(args, Phase::Score, Phase::Compact, nullptr);
  } else {
    plan.enqueue(args, Phase::Score, Phase::Select, nullptr);
    arena.device.synchronize();
    makeCache(arena.download(args.counts, batch.size() * heads));
    plan.enqueue(args, Phase::Compact, Phase::Compact, nullptr);
  }
  arena.device.synchronize();
  KeptLayer result;
  int32_t status = arena.download(args.status, 1)[0];
  if (status & KVC_DATA_CAPACITY)
    throw fail(KVC_INTERNAL_ERROR, "kept rows do not fit their cache");
  if (status & KVC_DATA_CACHE)
    throw fail(KVC_INTERNAL_ERROR, "the view of a cache is wrong");
  result.nanScores = status & KVC_DATA_NAN;
  if (args.freed_pages) {
    auto freed = arena.download(args.freed_pages, batch.size() * heads * 2);
    for (size_t i = 0; i < freed.size(); i += 2)
      result.freedPages += size_t(freed[i + 1]);
    result.pages = laid->pagesWithRows();
  }
  for (size_t s = 0; s < batch.size(); ++s)
    result.sequences.push_back(read(s, scores));
  return result;
}

void LayerCall::readPacked(size_t s, size_t rows, KeptSequence &kept) {
  auto cache = [&](Bytes &own, const void *out) {
    if (onePlace()) {
      own.resize(rows * rowBytes);
      return std::move(own);
    }
    Bytes bytes(rows * rowBytes);
    arena.device.download(bytes.data(),
                          static_cast<const std::byte *>(out) +
                              s * outRows * rowBytes,
                          bytes.size());
    return bytes;
  };
  kept.k = cache(keptKeys, args.k_out);
  kept.v = cache(keptValues, args.v_out);
  for (size_t j = 0; carries && j < info.row_states; ++j)
    kept.states.push_back(arena.download(
        args.row_states_out + (j * batch.size() + s) * outRows, rows));
  if (hasRows())
    kept.positions = arena.download(args.positions_out + s * outRows, rows);
}

void LayerCall::readPlaced(size_t s, KeptSequence &kept) const {
  std::vector<int32_t> offsets =
      arena.download(args.offsets + s * heads, heads);
  auto gather = [&](const kvc_plane &plane, size_t bytes) {
    return laid->gather(plane.data, bytes, s, kept.counts.data(),
                        offsets.data());
  };
  kept.k = gather(into.k, rowBytes);
  kept.v = gather(into.v, rowBytes);
  Bytes positions = gather(into.positions, sizeof(int32_t));
  kept.positions.resize(positions.size() / sizeof(int32_t));
  std::memcpy(kept.positions.data(), positions.data(), positions.size());
  for (size_t j = 0; carries && j < info.row_states; ++j) {
    std::vector<float> &numbers = kept.states.emplace_back();
    for (size_t h = 0; h < heads; ++h) {
      auto own = arena.download(args.into_states.data +
                                    int64_t(j) * args.into_states.state_stride +
                                    int64_t((s * heads + h) * tokens),
                                size_t(kept.counts[h]));
      numbers.insert(numbers.end(), own.begin(), own.end());
    }
  }
}

KeptSequence LayerCall::read(size_t s, bool scores) {
  KeptSequence kept;
  kept.counts = arena.download(args.counts + s * heads, heads);
  size_t sum = 0;
  for (size_t h = 0; h < heads; ++h) {
    auto list = arena.download(args.indices + (s * heads + h) * tokens,
                               size_t(kept.counts[h]));
    kept.indices.insert(kept.indices.end(), list.begin(), list.end());
    sum += list.size();
  }
  args.into ? readPlaced(s, kept) : readPacked(s, sum, kept);
  std::vector<int32_t> ranked(heads);
  if (hasRows()) {
    ranked = arena.download(args.past + s * heads, heads);
    kept.past = uint32_t(*std::max_element(ranked.begin(), ranked.end()));
  } else {
    kept.past = uint32_t(arena.download(args.past + s, 1)[0]);
    std::fill(ranked.begin(), ranked.end(), int32_t(kept.past));
  }
  if (info.inputs & KVC_MERGES)
    kept.members = readMembers(s);
  if (!scores || info.scores_offset < 0 || !kept.past)
    return kept;
  auto *rows = reinterpret_cast<const float *>(
      static_cast<const std::byte *>(args.workspace) + info.scores_offset);
  size_t first = 0; // row of the head, in the sequence
  for (size_t h = 0; h < heads; first += rowsOf(s, h++)) {
    size_t from =
        s * info.scores_heads + std::min<size_t>(h, info.scores_heads - 1);
    bool byPosition = info.scores_by_position && batch[s].positions;
    auto line = arena.download(rows + from * tokens,
                               byPosition ? tokens : size_t(ranked[h]));
    for (size_t r = 0; r < size_t(ranked[h]); ++r)
      kept.scores.push_back(
          line[byPosition ? size_t(batch[s].positions[first + r]) : r]);
  }
  return kept;
}

MemberTable LayerCall::readMembers(size_t s) const {
  MemberTable table;
  table.counts = arena.download(args.member_counts + s * heads, heads);
  auto append = [&](auto &to, const auto *from, size_t head) {
    auto part = arena.download(from + (s * heads + head) * args.member_capacity,
                               size_t(table.counts[head]));
    to.insert(to.end(), part.begin(), part.end());
  };
  for (size_t h = 0; h < heads; ++h) {
    append(table.rows, args.member_rows, h);
    append(table.positions, args.member_positions, h);
    append(table.norms, args.member_norms, h);
  }
  return table;
}
