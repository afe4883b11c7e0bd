//===- RowsCall.cpp - a policy on one layer of a cache of rows ------------===//

#include "test/matrix/RowsCall.h"

#include "runtime/base/DType.h"
#include "runtime/base/Format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>

using namespace kvc;
using namespace kvc::test;

static void check(kvc_status status) {
  if (status != KVC_OK)
    throw std::runtime_error(lastError());
}

/// Rows behind each other, in the cache's type.
static std::vector<std::byte>
packed(const std::vector<std::vector<float>> &rows, kvc_dtype dtype) {
  std::vector<std::byte> bytes;
  for (const std::vector<float> &row : rows) {
    std::vector<std::byte> one = rt::narrow(row.data(), row.size(), dtype);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

/// NaN is the same as itself.
static bool sameBytes(const std::vector<float> &a,
                      const std::vector<float> &b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

static bool sameStates(const std::vector<std::vector<float>> &a,
                       const std::vector<std::vector<float>> &b) {
  return std::ranges::equal(a, b, sameBytes);
}

static bool sameMembers(const HeadMembers &a, const HeadMembers &b) {
  return a.rows == b.rows && a.positions == b.positions &&
         sameBytes(a.norms, b.norms);
}

Faults kvc::test::compareBytes(const RowsResult &a, const RowsResult &b) {
  Faults faults;
  if (a.status != b.status)
    faults.add(rt::formatted("status {}, not {}", b.status, a.status));
  if (a.keptLayers != b.keptLayers)
    faults.add("other layers have kept a token");
  if (a.heads.size() != b.heads.size())
    faults.add(
        rt::formatted("{} heads, not {}", b.heads.size(), a.heads.size()));
  for (size_t i = 0; i < std::min(a.heads.size(), b.heads.size()); ++i) {
    const RowsKept &own = a.heads[i], &other = b.heads[i];
    auto says = [&](bool same, const char *what) {
      if (!same)
        faults.add(rt::formatted("head {}: other {}", i, what));
    };
    says(own.indices == other.indices, "rows");
    says(own.positions == other.positions, "positions");
    says(own.k == other.k, "bytes of K");
    says(own.v == other.v, "bytes of V");
    says(sameMembers(own.members, other.members), "members");
    says(sameBytes(own.scores, other.scores), "scores");
    says(sameStates(own.states, other.states), "numbers that rows carry");
  }
  return faults;
}

Module kvc::test::openLibrary(const std::string &library, kvc_target_kind kind,
                              uint64_t seed) {
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = kind;
  target.threads = 1;
  target.seed = seed;
  kvc_module *module = nullptr;
  check(kvc_module_load(library.c_str(), &target, &module));
  return {module, kvc_module_close};
}

Layout kvc::test::layoutOf(kvc_cache_kind kind, uint32_t turn) {
  constexpr Layout slots[] = {Layout::Compacted, Layout::LeftPadded,
                              Layout::Flat, Layout::TokensFirst};
  constexpr Layout pages[] = {Layout::PagesNHD,  Layout::PagesByHead,
                              Layout::PagesKV,   Layout::PagesRagged,
                              Layout::PagesList, Layout::PagesHND};
  return kind == KVC_DENSE   ? Layout::HeadsFirst
         : kind == KVC_PAGED ? pages[turn % std::size(pages)]
                             : slots[turn % std::size(slots)];
}

namespace {
/// Numbers that rows carry, beside the rows of a cache: by slot where its positions are.
class LaidStates {
public:
  LaidStates(const Laid &cache, uint32_t most,
             const std::vector<std::vector<std::vector<float>>> &states)
      : cache(cache) {
    const kvc_cache_view &view = cache.view;
    auto of = [&](int64_t stride) { return stride / int64_t(view.head_dim); };
    bool bySlot = view.positions_by_slot;
    rows.by_slot = bySlot;
    rows.batch_stride =
        bySlot ? of(view.k.batch_stride) : int64_t(view.kv_heads) * most;
    rows.head_stride = bySlot ? of(view.k.head_stride) : most;
    rows.row_stride = bySlot ? of(view.k.row_stride) : 1;
    rows.page_stride = of(view.k.page_stride);
    // As many as the cache has rows, wherever they lie.
    size_t ofState = std::max<size_t>(cache.memory.size() / view.head_dim,
                                      view.batch * view.kv_heads * most);
    rows.state_stride = int64_t(ofState);
    memory.assign(ofState * states.size(), NAN);
    for (size_t j = 0; j < states.size(); ++j)
      for (size_t own = 0; own < states[j].size(); ++own)
        for (size_t r = 0; r < states[j][own].size(); ++r) {
          size_t at = place(own / view.kv_heads, own % view.kv_heads, r);
          if (at < ofState) // the view may be wrong
            memory[j * ofState + at] = states[j][own][r];
        }
    rows.data = memory.data();
  }
  kvc_row_states rows = {};

  float at(size_t state, uint32_t s, uint32_t g, size_t r) const {
    return memory[state * size_t(rows.state_stride) + place(s, g, r)];
  }

private:
  const Laid &cache;
  std::vector<float> memory;

  size_t place(size_t s, size_t g, size_t r) const {
    const kvc_cache_view &view = cache.view;
    auto first = int64_t(g) * rows.head_stride;
    if (!rows.by_slot)
      return size_t(int64_t(s) * rows.batch_stride + first + int64_t(r));
    auto number = [&](const kvc_numbers &numbers) {
      return numbers.data + int64_t(s) * numbers.batch_stride +
             int64_t(g) * numbers.head_stride;
    };
    size_t slot = r + (view.offsets.data ? size_t(*number(view.offsets)) : 0);
    if (view.kind != KVC_PAGED)
      return size_t(int64_t(s) * rows.batch_stride + first +
                    int64_t(slot) * rows.row_stride);
    return size_t(number(view.table)[slot / view.page_rows] * rows.page_stride +
                  first + int64_t(slot % view.page_rows) * rows.row_stride);
  }
};

/// Members of all heads: a table as a call has it.
class LaidMembers {
public:
  LaidMembers(size_t heads, uint32_t capacity)
      : rows(heads * capacity, -1), positions(heads * capacity, -1),
        counts(heads, -1), norms(heads * capacity, NAN) {
    table = {sizeof table, rows.data(),   positions.data(),
             norms.data(), counts.data(), capacity};
  }
  LaidMembers(const LaidMembers &) = delete;

  void put(size_t head, const HeadMembers &members) {
    counts[head] = int32_t(members.rows.size());
    size_t first = head * table.capacity;
    std::ranges::copy(members.rows, rows.begin() + ptrdiff_t(first));
    std::ranges::copy(members.positions, positions.begin() + ptrdiff_t(first));
    std::ranges::copy(members.norms, norms.begin() + ptrdiff_t(first));
  }
  HeadMembers of(size_t head) const {
    size_t first = head * table.capacity, count = size_t(counts[head]);
    auto some = [&](const auto &all) {
      auto begin = all.begin() + ptrdiff_t(first);
      return std::decay_t<decltype(all)>(begin, begin + ptrdiff_t(count));
    };
    return {some(rows), some(positions), some(norms)};
  }
  kvc_member_table table;

private:
  std::vector<int32_t> rows, positions, counts;
  std::vector<float> norms;
};
} // namespace

RowsResult kvc::test::evictRows(kvc_module *module, const Laid &cache,
                                const Laid *raw, const RowsInput &input,
                                bool prompt, Placement *placement) {
  kvc_cache_view view = cache.view;
  bool merged = !input.members.empty();
  LaidMembers members(input.members.size(), input.tokens);
  for (size_t i = 0; i < input.members.size(); ++i)
    members.put(i, input.members[i]);
  if (input.wrongMembers)
    members.table.counts[0] = *input.wrongMembers;
  if (merged)
    view.members = &members.table;
  uint32_t batch = view.batch, heads = view.kv_heads, d = view.head_dim;
  uint32_t qHeads = heads * input.group;
  uint32_t most = input.tokens;

  kvc_plan_options options = {};
  options.struct_size = sizeof options;
  options.head_dim = d;
  options.q_heads = qHeads;
  options.kv_heads = heads;
  options.dtype = view.dtype;
  options.max_batch = batch;
  options.max_tokens = most + 3;
  bool paged = view.kind == KVC_PAGED;
  options.cache = prompt   ? KVC_DENSE
                  : merged ? paged ? KVC_MERGED_PAGED : KVC_MERGED
                  : paged  ? KVC_PAGED
                           : KVC_RAGGED;
  Laid *into = placement ? placement->into : nullptr;
  if (into)
    options.into = into->view.kind == KVC_PAGED ? KVC_PAGED : KVC_RAGGED;
  kvc_plan *plan = nullptr;
  check(kvc_plan_create(module, &options, &plan));
  std::unique_ptr<kvc_plan, void (*)(kvc_plan *)> owner(plan, kvc_plan_destroy);
  kvc_plan_info info = {};
  info.struct_size = sizeof info;
  check(kvc_plan_query(plan, &info));

  std::vector<std::byte> q = packed(input.q, view.dtype),
                         wo = packed(input.wo, view.dtype);
  std::vector<std::byte> workspace(info.workspace_bytes +
                                   info.workspace_alignment);
  uint32_t capacity = most, outRows = heads * (most + 2);
  std::vector<int32_t> indices(batch * heads * capacity, -1),
      counts(batch * heads, -1), past(batch * heads, -1),
      offsets(batch * heads, -1), positions(batch * outRows, -1);
  size_t rowBytes = d * rt::dtypeBytes(view.dtype);
  std::vector<std::byte> k(batch * outRows * rowBytes), v(k.size());
  RowsResult result;

  kvc_layer_args args = {};
  args.struct_size = sizeof args;
  args.batch = batch;
  args.tokens = most;
  args.layer = uint32_t(input.layer);
  args.layers = uint32_t(input.layers);
  args.budgets = input.budgets.data();
  if (prompt) {
    auto rows = [](const kvc_plane &plane) -> kvc_rows {
      return {plane.data, plane.batch_stride, plane.head_stride,
              plane.row_stride};
    };
    args.lengths = view.lengths;
    args.k = rows(view.k);
    args.v = rows(view.v);
  } else {
    args.cache = &view;
    args.positions_out = into ? nullptr : positions.data();
  }
  int64_t row = d;
  args.q = {q.data(), qHeads * input.queries * row, input.queries * row, row};
  args.q_rows = input.queries;
  if (raw)
    args.k_raw = {raw->view.k.data, raw->view.k.batch_stride,
                  raw->view.k.head_stride, raw->view.k.row_stride};
  bool ownWo = input.wo.size() > size_t(input.hidden) * qHeads;
  args.wo = {wo.data(), ownWo ? input.hidden * qHeads * row : 0, row,
             qHeads * row};
  args.hidden = input.hidden;
  args.table = input.table.data();
  // A word is the layer that counted last and the count.
  std::vector<int32_t> state = input.keptLayers;
  for (int32_t &word : state)
    word |= int32_t(input.layer) << 16;
  args.state = state.empty() ? nullptr : state.data();
  args.state_rows = most;
  LaidStates laidStates(cache, most, input.states);
  std::vector<float> statesOut(info.row_states * batch * outRows, NAN);
  if (!input.newQueries.empty())
    args.new_queries = input.newQueries.data();
  if (!input.states.empty())
    args.row_states = laidStates.rows;
  bool carries = input.carries && info.row_states;
  std::vector<std::vector<std::vector<float>>> none(info.row_states);
  std::optional<LaidStates> placed;
  if (into == &cache && !input.states.empty())
    args.into_states = laidStates.rows;
  else if (into)
    args.into_states = placed.emplace(*into, most, none).rows;
  if (!carries)
    args.into_states = {};
  if (carries && !into)
    args.row_states_out = statesOut.data();
  std::vector<float> angles;
  if (merged) {
    angles = ropeOf(most, d);
    args.rope = angles.data();
    args.rope_positions = input.wrongAngles.value_or(most);
    if (!input.since.empty())
      args.since = input.since.data();
  }
  LaidMembers left(batch * heads, most);
  if (info.inputs & KVC_MERGES) {
    args.member_rows = left.table.rows;
    args.member_positions = left.table.positions;
    args.member_norms = left.table.norms;
    args.member_counts = left.table.counts;
    args.member_capacity = left.table.capacity;
  }
  args.indices = indices.data();
  args.index_capacity = capacity;
  args.counts = counts.data();
  args.past = past.data();
  args.status = &result.status;
  args.offsets = offsets.data();
  if (into) {
    args.into = &into->view;
    args.pack_to_tail = placement->tail;
    placement->freed.assign(batch * heads * 2, -1);
    if (into == &cache && view.kind == KVC_PAGED)
      args.freed_pages = placement->freed.data();
  } else {
    args.k_out = k.data();
    args.v_out = v.data();
    args.out_rows = outRows;
    args.slack = 2;
  }
  auto at = reinterpret_cast<uintptr_t>(workspace.data());
  size_t shift = (info.workspace_alignment - at % info.workspace_alignment) %
                 info.workspace_alignment;
  args.workspace = workspace.data() + shift;
  args.workspace_bytes = info.workspace_bytes;
  check(kvc_layer_evict(plan, &args, nullptr));

  for (int32_t word : state)
    result.keptLayers.push_back(word & 0xffff);
  if (result.status & (KVC_DATA_CACHE | KVC_DATA_CAPACITY))
    return result; // what was kept means nothing
  if (into)
    into->take(counts, offsets);
  // What the view holds now, else whose positions place scores.
  const Cache rows = into ? into->read() : cache.read();
  for (uint32_t s = 0; s < batch; ++s)
    for (uint32_t g = 0; g < heads; ++g) {
      uint32_t own = s * heads + g;
      RowsKept &kept = result.heads.emplace_back();
      auto first = indices.begin() + own * capacity;
      kept.indices.assign(first, first + counts[own]);
      if (info.inputs & KVC_MERGES)
        kept.members = left.of(own);
      if (into) {
        const Head &head = rows.head(s, g);
        kept.positions = head.positions;
        kept.k = packed(head.k, view.dtype);
        kept.v = packed(head.v, view.dtype);
        const LaidStates &states = placed ? *placed : laidStates;
        for (uint32_t j = 0; carries && j < info.row_states; ++j) {
          kept.states.emplace_back();
          for (int32_t r = 0; r < counts[own]; ++r)
            kept.states.back().push_back(states.at(j, s, g, size_t(r)));
        }
        continue;
      }
      size_t from = s * outRows + offsets[own], to = from + counts[own];
      kept.positions.assign(positions.begin() + from, positions.begin() + to);
      kept.k.assign(k.begin() + from * rowBytes, k.begin() + to * rowBytes);
      kept.v.assign(v.begin() + from * rowBytes, v.begin() + to * rowBytes);
      for (uint32_t j = 0; carries && j < info.row_states; ++j) {
        auto numbers = statesOut.begin() + j * batch * outRows;
        kept.states.emplace_back(numbers + from, numbers + to);
      }
      int32_t ranked = prompt ? past[s] : past[own];
      if (info.scores_offset >= 0 && ranked) {
        auto *scores = reinterpret_cast<const float *>(
            static_cast<std::byte *>(args.workspace) + info.scores_offset);
        scores += (s * info.scores_heads + (info.scores_heads > 1 ? g : 0)) *
                  args.tokens;
        for (int32_t r = 0; r < ranked; ++r)
          kept.scores.push_back(
              scores[info.scores_by_position ? rows.head(s, g).positions[r]
                                             : r]);
      }
    }
  return result;
}
