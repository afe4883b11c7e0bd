//===- Evictor.cpp - a policy applied to layers that live on the host -----===//

#include "executor/eviction/Evictor.h"

#include "executor/eviction/Arena.h"
#include "executor/eviction/LayerCall.h"
#include "kvc/host.h"
#include "kvc/ptx.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <map>

using namespace kvc::rt;

kvc_target kvc::rt::chooseTarget(const std::string &name, uint64_t seed) {
  kvc_target target = {};
  target.struct_size = sizeof target;
  target.seed = seed;
  if (name == "cuda" || (name.empty() && kvc_cuda_device_count() > 0))
    target.kind = KVC_CUDA;
  else if (name == "ptx")
    target.kind = KVC_PTX;
  else if (name != "host" && !name.empty())
    throw fail(KVC_BAD_ARGUMENT, "target must be host, cuda or ptx, got '{}'",
               name);
  return target;
}

const char *kvc::rt::targetName(const kvc_target &target) {
  return target.kind == KVC_CUDA  ? "cuda"
         : target.kind == KVC_PTX ? "ptx"
                                  : "host";
}

/// Device memory that lives from layer to layer.
struct Evictor::State {
  State(Device &device, size_t batch, uint32_t tokens)
      : arena(device), batch(batch), tokens(tokens),
        memory(arena.zeros<int32_t>(batch * tokens)) {}
  Arena arena;
  const size_t batch;
  const uint32_t tokens;
  int32_t *const memory;
  uint32_t nextLayer = 0;
};

struct Evictor::Prepared {
  explicit Prepared(Device &device) : arena(device) {}
  Arena arena;
  std::map<uint32_t, std::byte *> byLayer;
};

Evictor::Evictor(const std::string &library, const kvc_target &target) {
  kvc_enable_host();
  kvc_enable_ptx();
  module = std::make_unique<kvc_module>(library, target);
}
Evictor::~Evictor() = default;

void Evictor::setTable(std::vector<float> importance) {
  table = std::move(importance);
}

void Evictor::plan(const kvc_plan_options &options) {
  state.reset();
  prepared.reset();
  current = std::make_unique<kvc_plan>(*module, options);
}

KeptLayer Evictor::evict(const std::vector<LayerSequence> &batch, float scale,
                         bool scores, uint32_t layer, uint32_t layers) {
  LayerCall call(*current, batch, scale, layer, layers, pageRows);
  if (call.inputs() & KVC_READS_TABLE) {
    uint32_t queryHeads = current->options.q_heads;
    if (table.size() != size_t(layers) * queryHeads)
      throw fail(KVC_BAD_ARGUMENT,
                 "policy '{}' reads a table of {} layers and {} query heads, "
                 "got {} entries",
                 module->manifest.policy, layers, queryHeads, table.size());
    call.setTable(table);
  }
  if (call.inputs() & KVC_READS_STATE)
    call.setState(stateOf(batch.size(), call.mostTokens(), layer));
  if (call.inputs() & KVC_READS_ANGLES)
    call.setAngles(angles);
  if (prepares && batch.size() == 1)
    bringPrepared(call, layer);
  if (carries)
    call.carryStates();
  if (atOnce)
    call.runAtOnce();
  if (current->options.into)
    call.moveInPlace(toTail);
  return call.run(scores);
}

void Evictor::bringPrepared(LayerCall &call, uint32_t layer) {
  size_t bytes = current->query().prepared_bytes;
  if (!bytes)
    return;
  if (!prepared)
    prepared = std::make_unique<Prepared>(*module->device);
  auto own = prepared->byLayer.find(layer);
  bool filled = own != prepared->byLayer.end();
  std::byte *memory =
      filled ? own->second : prepared->arena.fresh<std::byte>(bytes);
  call.setPrepared(memory, filled);
  prepared->byLayer[layer] = memory;
}

int32_t *Evictor::stateOf(size_t batch, uint32_t tokens, uint32_t layer) {
  if (layer == 0)
    state = std::make_unique<State>(*module->device, batch, tokens);
  if (!state || state->nextLayer != layer || state->batch != batch ||
      state->tokens != tokens)
    throw fail(KVC_BAD_ARGUMENT,
               "policy '{}' carries state: layers must come in order, got {}",
               module->manifest.policy, layer);
  ++state->nextLayer;
  return state->memory;
}
