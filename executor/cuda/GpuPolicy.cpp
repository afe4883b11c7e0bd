//===- GpuPolicy.cpp - a policy's plan and memory on a GPU ----------------===//

#include "executor/cuda/GpuPolicy.h"

#include "executor/eviction/HeadTable.h"
#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::gpu;
namespace rt = kvc::rt;

static kvc_target cudaTarget() {
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.kind = KVC_CUDA;
  return target;
}

GpuPolicy::GpuPolicy(const rt::PolicyOptions &options, Queue &queue,
                     const rt::Config &config, const GpuWeights &weights)
    : queue(queue), config(config), module(options.policy, cudaTarget()),
      weights(weights),
      results(queue, (Lists * config.kvHeads + 1) * sizeof(int32_t)),
      limits(queue, 4 * sizeof(int32_t)), readback(queue, results.bytes()),
      begun(queue, /*timed=*/true), done(queue, /*timed=*/true) {
  bool mine =
      module.manifest.reads(rt::Argument::table) || !options.sharesTable;
  table =
      queue.uploaded(rt::readTable(module.manifest, mine ? options.table : "",
                                   config.layers, config.qHeads));
}

void GpuPolicy::begin(uint32_t length, uint32_t budget, uint32_t newTokens,
                      uint32_t since) {
  tokens = length;
  layer = 0;
  queue.clear(results.data(), results.bytes());
  int32_t all[] = {int32_t(length),
                   int32_t(std::min<uint32_t>(budget, INT32_MAX)),
                   int32_t(newTokens), int32_t(since)};
  queue.upload(limits.data(), all, sizeof all);
}

void GpuPolicy::makeStates(size_t rows) {
  if (!info.row_states || rows <= statesRows)
    return;
  states = Buffer(queue, info.row_states * rows * sizeof(float));
  statesRows = rows;
}

KeptRows GpuPolicy::keptRows(const Buffer &k, const Buffer &v,
                             const int32_t *lists) const {
  KeptRows kept = {};
  kept.k = k.data();
  kept.v = v.data();
  kept.counts = result(Counts);
  kept.offsets = result(Offsets);
  kept.hostCounts.assign(lists, lists + config.kvHeads);
  return kept;
}

void GpuPolicy::addStates(KeptRows &kept, size_t outRows) const {
  kept.states = states.as<float>();
  kept.statesRows = outRows;
  if (info.row_states)
    kept.stateNames = module.manifest.states;
}

std::vector<std::vector<float>> GpuPolicy::statesOf(size_t rows,
                                                    size_t outRows) const {
  std::vector<std::vector<float>> all;
  for (size_t j = 0; j < info.row_states; ++j)
    all.push_back(queue.downloaded<float>(
        states.data(j * outRows * sizeof(float)), rows));
  return all;
}

void GpuPolicy::makeMembers(uint32_t capacity) {
  if (!(info.inputs & KVC_MERGES) || capacity <= memberCapacity)
    return;
  size_t bytes = size_t(config.kvHeads) * capacity * sizeof(int32_t);
  for (Buffer *list : {&memberRows, &memberPositions, &memberNorms})
    *list = Buffer(queue, bytes);
  memberCapacity = capacity;
}

void GpuPolicy::addMembers(KeptRows &kept, const int32_t *lists) const {
  if (!memberCapacity)
    return;
  const int32_t *counts = lists + MemberCounts * config.kvHeads;
  kept.members = {.rows = memberRows.as<int32_t>(),
                  .positions = memberPositions.as<int32_t>(),
                  .norms = memberNorms.as<float>(),
                  .counts = result(MemberCounts),
                  .hostCounts = {counts, counts + config.kvHeads},
                  .capacity = memberCapacity};
}

rt::MemberTable GpuPolicy::members() const {
  rt::MemberTable table;
  if (!memberCapacity)
    return table;
  table.counts = downloaded(MemberCounts);
  auto add = [&](const Buffer &from, auto &to) {
    using T = typename std::decay_t<decltype(to)>::value_type;
    for (uint32_t h = 0; h < config.kvHeads; ++h) {
      auto part =
          queue.downloaded<T>(from.data(size_t(h) * memberCapacity * sizeof(T)),
                              size_t(table.counts[h]));
      to.insert(to.end(), part.begin(), part.end());
    }
  };
  add(memberRows, table.rows);
  add(memberPositions, table.positions);
  add(memberNorms, table.norms);
  return table;
}

bool GpuPolicy::planFor(uint32_t most, kvc_cache_kind cache) {
  if (most <= planned)
    return false;
  kvc_plan_options options = {};
  options.struct_size = sizeof options;
  options.head_dim = config.headDim;
  options.q_heads = config.qHeads;
  options.kv_heads = config.kvHeads;
  options.max_batch = 1;
  options.max_tokens = most;
  options.dtype = queue.dtype;
  options.cache = cache;
  plan.emplace(module, options);
  info = plan->query();
  planned = most;
  workspace = Buffer(queue, info.workspace_bytes);
  if (info.inputs & KVC_READS_STATE)
    state = Buffer(queue, planned * sizeof(int32_t));
  // Of the weights alone, so the first plan makes it for all.
  while (info.prepared_bytes && prepared.size() < config.layers) {
    prepared.emplace_back(queue, info.prepared_bytes);
    kvc_layer_args args = {};
    args.struct_size = sizeof args;
    bringProjection(args, uint32_t(prepared.size()) - 1);
    plan->prepare(args, queue.stream());
  }
  return true;
}

void GpuPolicy::bringProjection(kvc_layer_args &args, uint32_t layer) const {
  int64_t d = config.headDim;
  args.wo = {weights.layers[layer].o.weight.data(), 0, d, config.qHeads * d};
  args.hidden = config.hidden;
  if (prepared.empty())
    return;
  args.prepared = prepared[layer].data();
  args.prepared_bytes = prepared[layer].bytes();
}

kvc_layer_args GpuPolicy::arguments() const {
  kvc_layer_args args = {};
  args.struct_size = sizeof args;
  args.batch = 1;
  args.tokens = tokens;
  args.layer = layer;
  args.layers = config.layers;
  args.budgets = length() + 1;
  if (info.inputs & KVC_READS_NEW_QUERIES)
    args.new_queries = length() + 2;
  if (module.manifest.reads(rt::Argument::since))
    args.since = length() + 3;
  if (info.row_states)
    args.row_states_out = states.as<float>();
  if (memberCapacity) {
    args.member_rows = memberRows.as<int32_t>();
    args.member_positions = memberPositions.as<int32_t>();
    args.member_norms = memberNorms.as<float>();
    args.member_counts = result(MemberCounts);
    args.member_capacity = memberCapacity;
  }
  if (info.inputs & KVC_READS_WO)
    bringProjection(args, layer);
  if (info.inputs & KVC_READS_TABLE)
    args.table = table.as<float>();
  if (info.inputs & KVC_READS_STATE) {
    args.state = state.as<int32_t>();
    args.state_rows = planned;
  }
  args.counts = result(Counts);
  args.offsets = result(Offsets);
  args.past = result(Past);
  args.status = result(Lists);
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  return args;
}

void GpuPolicy::enqueue(const kvc_layer_args &args) {
  if (layer == 0 && state)
    queue.clear(state.data(), state.bytes());
  begun.record();
  plan->enqueue(args, rt::Phase::Score, rt::Phase::Compact, queue.stream());
  done.record();
  readback.start(results.data());
  ++layer;
}

const int32_t *GpuPolicy::wait() {
  const auto *values = readback.wait<int32_t>();
  elapsed += done.secondsSince(begun);
  int32_t status = values[Lists * config.kvHeads];
  if (status & KVC_DATA_CAPACITY)
    throw rt::fail(KVC_INTERNAL_ERROR, "kept rows do not fit their cache");
  if (status & KVC_DATA_CACHE)
    throw rt::fail(KVC_INTERNAL_ERROR, "the view of a cache is wrong");
  nan |= status & KVC_DATA_NAN;
  return values;
}
