//===- RunDump.h - runs of a policy over time, as inputs of `apply` -------===//
//
// A file for each run: the cache of rows that the policy was given, with the queries
// that it reads, as `kvc-run apply` takes it, and beside it what was kept:
// layers.{i}.kept.counts I32 [Hkv], layers.{i}.kept.positions I32 [sum of counts].
// The metadata's `budget` is the run's B.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_SESSION_RUNDUMP_H
#define KVC_EXECUTOR_SESSION_RUNDUMP_H

#include "executor/engine/Engine.h"
#include "executor/io/Safetensors.h"

namespace kvc::rt {

class RunDump {
public:
  /// `folder` must be there. Throws Failure where its first file cannot be written.
  RunDump(const Engine &engine, const Manifest &manifest, std::string folder);

  /// Before the layers of a run.
  void begin(uint32_t length, uint32_t budget, uint32_t newTokens,
             uint32_t since);
  void addRows(uint32_t layer, const Cache &cache,
               const RecentQueries *queries);
  void addKept(uint32_t layer, const KeptSequence &kept);
  /// FOLDER/0.safetensors and so on, all or none. Throws Failure.
  void write() const;

private:
  struct Run {
    Tensors tensors;
    std::map<std::string, std::string> metadata;
    uint32_t queries = 0; // that the policy reads
  };
  const Engine &engine;
  const Manifest &manifest;
  const std::string folder;
  std::vector<Run> runs;

  std::string path(size_t run) const;
};

} // namespace kvc::rt

#endif // KVC_EXECUTOR_SESSION_RUNDUMP_H
