//===- RunDump.cpp - runs of a policy over time, as inputs of `apply` -----===//

#include "executor/session/RunDump.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "executor/eviction/MergedRows.h"

#include <algorithm>
#include <cmath>

using namespace kvc::rt;

RunDump::RunDump(const Engine &engine, const Manifest &manifest,
                 std::string folder)
    : engine(engine), manifest(manifest), folder(std::move(folder)) {
  checkWritable({path(0)});
}

std::string RunDump::path(size_t run) const {
  return formatted("{}/{}.safetensors", folder, run);
}

void RunDump::begin(uint32_t length, uint32_t budget, uint32_t newTokens,
                    uint32_t since) {
  Run &run = runs.emplace_back();
  run.queries = manifest.queriesOf(length, newTokens);
  run.metadata = {
      {"length", formatted("{}", length)},
      {"budget", formatted("{}", budget)},
      {"scale",
       formatted("{}", 1.0 / std::sqrt(double(engine.config.headDim)))}};
  if (manifest.leastQueries)
    run.metadata["new"] = formatted("{}", newTokens);
  if (manifest.reads(Argument::since))
    run.metadata["since"] = formatted("{}", since);
  // The format's angles are unscaled.
  if (manifest.reads(Argument::rope) &&
      engine.config.ropeScaling.kind == RopeScaling::Kind::None)
    run.metadata["rope_theta"] = formatted("{}", engine.config.ropeTheta);
}

void RunDump::addRows(uint32_t layer, const Cache &cache,
                      const RecentQueries *queries) {
  const Config &config = engine.config;
  std::string prefix = formatted("layers.{}.", layer);
  std::string dtype = safetensorsName(cache.dtype);
  RaggedCache::Contents rows = cache.contents(layer);
  uint64_t count = rows.positions.size(), d = config.headDim;
  auto &tensors = runs.back().tensors;
  tensors[prefix + "lengths"] =
      TensorData::of("I32", {config.kvHeads}, rows.counts);
  tensors[prefix + "positions"] =
      TensorData::of("I32", {count}, rows.positions);
  tensors[prefix + "k"] = TensorData::of(dtype, {count, d}, rows.k);
  tensors[prefix + "v"] = TensorData::of(dtype, {count, d}, rows.v);
  addMembers(tensors, prefix, tableOf(rows.members));
  auto put = [&](const char *name, std::vector<uint64_t> shape,
                 const std::vector<float> &values) {
    tensors[prefix + name] =
        TensorData::of(dtype, std::move(shape),
                       narrow(values.data(), values.size(), cache.dtype));
  };
  for (const std::string &name : manifest.states)
    if (auto state = rows.states.find(name); state != rows.states.end())
      tensors[prefix + "state." + name] =
          TensorData::of("F32", {count}, state->second);
  uint32_t read =
      queries ? std::min(runs.back().queries, queries->count(layer)) : 0;
  if (read) {
    put("q", {config.qHeads, read, d}, queries->last(layer, read));
    // A policy gets it where it is that of the keys as they are stored.
    auto lse = queries->lse(layer, read);
    if (cache.dtype == KVC_F32 && !lse.empty())
      tensors[prefix + "lse"] =
          TensorData::of("F32", {config.qHeads, read}, lse);
  }
  if (manifest.reads(Argument::wo))
    put("wo", {config.hidden, config.qHeads * d},
        engine.outputProjection(layer));
}

void RunDump::addKept(uint32_t layer, const KeptSequence &kept) {
  std::string prefix = formatted("layers.{}.kept.", layer);
  auto &tensors = runs.back().tensors;
  tensors[prefix + "counts"] =
      TensorData::of("I32", {kept.counts.size()}, kept.counts);
  tensors[prefix + "positions"] =
      TensorData::of("I32", {kept.positions.size()}, kept.positions);
  addMembers(tensors, prefix, kept.members);
  for (size_t j = 0; j < kept.states.size(); ++j)
    tensors[prefix + "state." + manifest.states[j]] =
        TensorData::of("F32", {kept.states[j].size()}, kept.states[j]);
}

void RunDump::write() const {
  std::vector<TensorFile> files;
  for (size_t i = 0; i < runs.size(); ++i)
    files.push_back({path(i), runs[i].tensors, runs[i].metadata});
  writeTensors(files);
}
