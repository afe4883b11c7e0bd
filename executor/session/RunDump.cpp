//===- RunDump.cpp - runs of a policy over time, as inputs of `apply` -----===//

#include "executor/session/RunDump.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"

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

void RunDump::begin(uint32_t length, uint32_t budget) {
  Run &run = runs.emplace_back();
  run.metadata = {
      {"length", formatted("{}", length)},
      {"budget", formatted("{}", budget)},
      {"scale",
       formatted("{}", 1.0 / std::sqrt(double(engine.config.headDim)))}};
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
  auto put = [&](const char *name, std::vector<uint64_t> shape,
                 const std::vector<float> &values) {
    tensors[prefix + name] =
        TensorData::of(dtype, std::move(shape),
                       narrow(values.data(), values.size(), cache.dtype));
  };
  uint32_t read =
      queries ? std::min(manifest.queries, queries->count(layer)) : 0;
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
}

std::vector<std::pair<std::string, std::string>> RunDump::texts() const {
  std::vector<std::pair<std::string, std::string>> texts;
  for (size_t i = 0; i < runs.size(); ++i)
    texts.emplace_back(path(i),
                       formatSafetensors(runs[i].tensors, runs[i].metadata));
  return texts;
}
