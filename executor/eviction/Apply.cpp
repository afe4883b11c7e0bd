//===- Apply.cpp - one policy on given tensors, no model ------------------===//

#include "executor/eviction/Apply.h"

#include "executor/eviction/Budget.h"
#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "runtime/cache/CacheView.h"
#include "executor/eviction/Evictor.h"
#include "executor/eviction/HeadTable.h"
#include "executor/eviction/MergedRows.h"
#include "executor/io/LayerFile.h"
#include "executor/model/Rope.h"
#include "executor/eviction/MetricsReport.h"
#include "ptx/PTXDevice.h"
#include "ptx/profile/Report.h"

#include <algorithm>
#include <iostream>
#include <list>

using namespace kvc::rt;

namespace {

/// All files of a batch have one shape but for T and the number of queries.
void checkBatch(const std::vector<LayerFile> &files) {
  const LayerFile &first = files.front();
  for (const LayerFile &file : files) {
    auto same = [&](auto a, auto b, const char *what) {
      if (a != b)
        throw fail(KVC_BAD_ARGUMENT, "{}: {} must be as in {} ({}), got {}",
                   file.path(), what, first.path(), a, b);
    };
    if (first.ofRows != file.ofRows)
      throw fail(KVC_BAD_ARGUMENT, "{}: must be {}, as {} is", file.path(),
                 first.ofRows ? "a cache of rows (lengths, positions)"
                              : "a prompt, without lengths and positions",
                 first.path());
    if (first.merged != file.merged)
      throw fail(KVC_BAD_ARGUMENT, "{}: must be {}, as {} is", file.path(),
                 first.merged ? "a merged cache (members)"
                              : "a cache of rows without members",
                 first.path());
    same(first.ropeTheta.value_or(0), file.ropeTheta.value_or(0),
         "metadata 'rope_theta'");
    same(first.layers.size(), file.layers.size(), "the number of layers");
    same(first.kvHeads, file.kvHeads, "the number of KV heads");
    same(first.headDim, file.headDim, "the head size");
    same(std::string(dtypeName(first.dtype)),
         std::string(dtypeName(file.dtype)), "the element type");
    same(first.scale, file.scale, "the scale");
    if (first.hidden && file.hidden)
      same(first.hidden, file.hidden, "the hidden size");
    if (first.qHeads && file.qHeads)
      same(first.qHeads, file.qHeads, "the number of query heads");
  }
}

/// Query heads of the batch. Without queries any compiled group will do, since
/// nothing is scored.
uint32_t queryHeads(const std::vector<LayerFile> &files,
                    const Manifest &manifest) {
  for (const LayerFile &file : files)
    if (file.qHeads)
      return file.qHeads;
  for (const Variant &variant : manifest.variants)
    if (variant.headDim == files[0].headDim && variant.dtype == files[0].dtype)
      return variant.group * files[0].kvHeads;
  return files[0].kvHeads;
}

/// True where the window takes the whole budget of every head, or none has a past.
bool ranksNothing(const LayerFile &file, uint32_t budget, uint32_t window) {
  if (!file.ofRows)
    return budget <= window;
  for (const LayerTensors &layer : file.layers) {
    const int32_t *position = layer.positions;
    for (uint32_t g = 0; g < file.kvHeads; ++g) {
      int64_t rows = layer.lengths[g], inWindow = 0;
      for (int64_t r = 0; r < rows; ++r)
        inWindow += int64_t(*position++) >= int64_t(file.tokens) - window;
      if (rows > inWindow && inWindow < budget)
        return false;
    }
  }
  return true;
}

/// How many of the last queries no earlier run has had, where the file says so: with a
/// number, or by what rows have carried so far.
std::optional<uint32_t> newQueries(const LayerFile &file,
                                   const Manifest &manifest) {
  if (file.newQueries)
    return file.newQueries;
  for (const LayerTensors &layer : file.layers)
    for (const std::string &name : manifest.states)
      if (layer.states.contains(name))
        return file.queries;
  return std::nullopt;
}

/// What scoring reads must be there, unless nothing is scored; `carries`: what rows
/// carry is computed all the same.
void checkInputs(const LayerFile &file, uint32_t budget, bool carries,
                 std::optional<uint32_t> fresh, const Manifest &manifest) {
  bool scored =
      carries ||
      (file.tokens > budget &&
       !(manifest.window && ranksNothing(file, budget, *manifest.window)));
  for (size_t layer = 0; layer < file.layers.size(); ++layer) {
    const LayerTensors &tensors = file.layers[layer];
    for (auto [name, wanted, tensor] :
         {std::tuple{"q", scored && manifest.queries > 0, tensors.q},
          std::tuple{"wo", scored && manifest.reads(Argument::wo), tensors.wo},
          // Merging policies write keys before RoPE, also of what they just
          // keep.
          std::tuple{"k_raw", manifest.reads(Argument::k_raw) && !file.merged,
                     tensors.kRaw}})
      if (wanted && !tensor)
        throw fail(KVC_BAD_ARGUMENT, "{}: tensor 'layers.{}.{}' is missing",
                   file.path(), layer, name);
  }
  if (!scored)
    return;
  // In front of the first token there are none: policies see rows of zeros
  // there, here as in a prompt that is as short.
  uint32_t wanted =
      std::min(manifest.queriesOf(file.tokens, fresh), file.tokens);
  if (file.queries < wanted)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: policy '{}' reads the last {} queries{}, got {}",
               file.path(), manifest.policy, wanted,
               manifest.leastQueries && !fresh
                   ? ", unless metadata 'new' says how many are new"
                   : "",
               file.queries);
}

void addOutputs(Tensors &out, size_t layer, const LayerFile &file,
                KeptSequence kept, bool state, const Manifest &manifest) {
  std::string prefix = formatted("layers.{}.", layer);
  uint64_t heads = file.kvHeads, rows = kept.indices.size();
  const std::string &type = file.layers[0].k->dtype;
  out[prefix + "counts"] = TensorData::of("I32", {heads}, kept.counts);
  out[prefix + "indices"] = TensorData::of("I32", {rows}, kept.indices);
  out[prefix + "k"] = {type, {rows, file.headDim}, std::move(kept.k)};
  out[prefix + "v"] = {type, {rows, file.headDim}, std::move(kept.v)};
  addMembers(out, prefix, kept.members);
  if (file.ofRows)
    out[prefix + "positions"] = TensorData::of("I32", {rows}, kept.positions);
  else if (state) // rows of a prompt are tokens
    out[prefix + "positions"] = TensorData::of("I32", {rows}, kept.indices);
  for (size_t j = 0; j < kept.states.size(); ++j)
    out[prefix + "state." + manifest.states[j]] =
        TensorData::of("F32", {rows}, kept.states[j]);
  if (kept.scores.empty())
    return;
  std::vector<uint64_t> shape{heads, kept.past};
  if (file.ofRows) // the rows that each head has ranked
    shape = {kept.scores.size()};
  out[prefix + "scores"] = TensorData::of("F32", shape, kept.scores);
}

/// Cosines and sines of the positions of a file's tokens; halves are rotated, unscaled.
std::vector<float> anglesOf(const LayerFile &file, uint32_t positions) {
  if (!file.ropeTheta)
    throw fail(
        KVC_BAD_ARGUMENT,
        "{}: metadata 'rope_theta' must say how members' keys are turned",
        file.path());
  return Rope(file.headDim, *file.ropeTheta, {}).angles(0, positions);
}

} // namespace

std::vector<std::string> kvc::rt::apply(const ApplyOptions &options) {
  std::vector<std::string> notes;
  Budget budget = Budget::parse(options.budget, options.keep);
  if (options.page & (options.page - 1))
    throw fail(KVC_BAD_ARGUMENT, "page must be a power of two, got {}",
               options.page);
  std::vector<std::string> written = options.outputs;
  if (!options.metrics.empty())
    written.push_back(options.metrics);
  std::vector<std::string> read = options.inputs;
  read.insert(read.end(), {options.policy, options.table});
  checkWritable(written, read);
  kvc_target target = chooseTarget(options.target, options.seed);
  Evictor evictor(options.policy, target);
  notes.push_back(formatted("target: {}", targetName(target)));
  const Manifest &manifest = evictor.manifest();
  std::unique_ptr<ptx::Profiler> profiler;
  if (options.profile)
    profiler = ptx::watchLaunches(*evictor.opened().device, options.card, 0);
  std::vector<LayerFile> files;
  files.reserve(options.inputs.size());
  for (const std::string &input : options.inputs)
    files.emplace_back(input);
  checkBatch(files);
  if (files[0].ofRows && !options.metrics.empty())
    throw fail(KVC_BAD_ARGUMENT,
               "--metrics needs a prompt, got a cache of rows in {}",
               files[0].path());
  for (const LayerFile &file : files)
    if (!options.metrics.empty() && file.queries &&
        options.metricsQueries > file.queries)
      throw fail(KVC_BAD_ARGUMENT,
                 "--metrics-queries must be at most the queries of {} ({}), "
                 "got {}",
                 file.path(), file.queries, options.metricsQueries);

  kvc_plan_options plan = {};
  plan.struct_size = sizeof plan;
  plan.head_dim = files[0].headDim;
  plan.kv_heads = files[0].kvHeads;
  plan.q_heads = queryHeads(files, manifest);
  evictor.setTable(readTable(evictor.manifest(), options.table,
                             uint32_t(files[0].layers.size()), plan.q_heads));
  plan.dtype = files[0].dtype;
  plan.max_batch = uint32_t(files.size());
  std::vector<uint32_t> budgets;
  std::vector<std::optional<uint32_t>> fresh;
  // A cache of rows has been run before, and will be again.
  bool carries = !manifest.states.empty() && (files[0].ofRows || options.state);
  for (const LayerFile &file : files) {
    plan.max_tokens = std::max(plan.max_tokens, file.tokens);
    budgets.push_back(budget.of(file.tokens));
    fresh.push_back(newQueries(file, manifest));
    checkInputs(file, budgets.back(), carries, fresh.back(), manifest);
  }
  evictor.carryStates(carries);
  plan.cache = files[0].merged   ? options.page ? KVC_MERGED_PAGED : KVC_MERGED
               : options.page    ? KVC_PAGED
               : files[0].ofRows ? KVC_RAGGED
                                 : KVC_DENSE;
  if (options.inPlace) {
    if (plan.cache == KVC_DENSE)
      throw fail(KVC_BAD_ARGUMENT,
                 "--in-place needs a cache of rows or --page, got a prompt in "
                 "{}",
                 files[0].path());
    plan.into = plansPages(plan.cache) ? KVC_PAGED : KVC_RAGGED;
  }
  evictor.setTail(options.tail);
  evictor.setPage(options.page);
  evictor.plan(plan);
  if (files[0].merged && manifest.reads(Argument::rope))
    evictor.setAngles(anglesOf(files[0], plan.max_tokens));

  std::vector<Tensors> outputs(files.size());
  std::vector<SequenceMetrics> metrics;
  for (size_t s = 0; s < files.size(); ++s)
    metrics.push_back({options.inputs[s],
                       files[s].tokens,
                       budgets[s],
                       files[s].cacheBytes(),
                       {}});
  for (size_t layer = 0; layer < files[0].layers.size(); ++layer) {
    std::vector<LayerSequence> batch;
    std::list<MemberTable> tables;
    for (size_t s = 0; s < files.size(); ++s) {
      const LayerTensors &tensors = files[s].layers[layer];
      LayerSequence sequence;
      if (files[s].merged)
        sequence.members =
            &tables.emplace_back(tableOf(tensors, files[s].kvHeads));
      sequence.since = files[s].since;
      sequence.tokens = files[s].tokens;
      sequence.lengths = tensors.lengths;
      sequence.positions = tensors.positions;
      sequence.k = tensors.k->data;
      sequence.v = tensors.v->data;
      sequence.kRaw = tensors.kRaw ? tensors.kRaw->data : nullptr;
      sequence.budget = budgets[s];
      if (tensors.q) {
        sequence.q = tensors.q->data;
        sequence.queries = files[s].queries;
        if (tensors.lse)
          sequence.lse = reinterpret_cast<const float *>(tensors.lse->data);
      }
      if (tensors.wo) {
        sequence.wo = tensors.wo->data;
        sequence.hidden = files[s].hidden;
      }
      sequence.newQueries = fresh[s];
      for (const std::string &name : manifest.states) {
        auto state = tensors.states.find(name);
        sequence.states.push_back(
            state == tensors.states.end()
                ? nullptr
                : reinterpret_cast<const float *>(state->second->data));
      }
      batch.push_back(sequence);
    }
    KeptLayer kept =
        evictor.evict(batch, files[0].scale, options.scores, uint32_t(layer),
                      uint32_t(files[0].layers.size()));
    if (kept.nanScores)
      notes.push_back(formatted("warning: layer {}: some scores are NaN; "
                                "they rank below every number",
                                layer));
    if (options.inPlace && options.page)
      notes.push_back(formatted("layer {}: {} of {} pages are free", layer,
                                kept.freedPages, kept.pages));
    for (size_t s = 0; s < files.size(); ++s) {
      if (!options.metrics.empty())
        metrics[s].layers.push_back(measure(metricsLayer(files[s], layer),
                                            kept.sequences[s], files[s].dtype,
                                            options.metricsQueries));
      addOutputs(outputs[s], layer, files[s], std::move(kept.sequences[s]),
                 options.state, manifest);
    }
  }
  std::vector<TensorFile> results;
  for (size_t s = 0; s < files.size(); ++s)
    results.push_back({options.outputs[s], outputs[s]});
  std::string text;
  std::vector<OutputFile> others;
  if (!options.metrics.empty()) {
    text = formatMetrics(manifest.policy, options.metricsQueries, metrics);
    others.push_back({options.metrics, {text}});
  }
  writeTensors(results, others);
  if (profiler)
    std::cout << ptx::report(profiler->launches(), profiler->card());
  return notes;
}
