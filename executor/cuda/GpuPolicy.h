//===- GpuPolicy.h - a policy's plan and memory on a GPU ------------------===//
//
// What a policy needs from layer to layer, whether it compresses a prompt or a cache:
// the plan and its workspace, what it reads of the model, and how much it kept, which
// is read back while the GPU is busy with the next layer.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_EXECUTOR_CUDA_GPUPOLICY_H
#define KVC_EXECUTOR_CUDA_GPUPOLICY_H

#include "executor/cuda/Events.h"
#include "executor/cuda/GpuCache.h"
#include "executor/cuda/GpuWeights.h"
#include "executor/engine/Engine.h"
#include "runtime/plan/Plan.h"

#include <optional>

namespace kvc::gpu {

class GpuPolicy {
public:
  /// Lists of [Hkv] numbers that come back of a layer. Of a prompt the first of Past
  /// is the number for all heads.
  enum List { Counts, Offsets, Past, MemberCounts, Lists };

  /// Throws Failure, also for a table that does not fit.
  GpuPolicy(const rt::PolicyOptions &options, Queue &queue,
            const rt::Config &config, const GpuWeights &weights);

  /// Before the layers of a sequence of `length` tokens, whose last `newTokens`
  /// queries no earlier run has had; earlier runs have had `since` tokens behind the
  /// prompt.
  void begin(uint32_t length, uint32_t budget, uint32_t newTokens,
             uint32_t since);
  /// A plan for at least so many tokens; true where it is a new one. Throws Failure
  /// where the policy is not compiled for the model and this kind of cache.
  bool planFor(uint32_t tokens, kvc_cache_kind cache);
  /// The running layer's, but for what is compressed, its queries, and where kept rows
  /// and their indices go.
  kvc_layer_args arguments() const;
  /// Starts the running layer, and goes on to the next.
  void enqueue(const kvc_layer_args &args);
  /// What came back of the layer that was enqueued last: the lists, behind each
  /// other. Throws Failure where a status bit says so.
  const int32_t *wait();

  /// What that layer kept, whose rows are in `k` and `v`, by the lists that came back.
  /// Where the positions are and what the rows carry is added by the caller.
  KeptRows keptRows(const Buffer &k, const Buffer &v, const int32_t *lists) const;

  int32_t *length() const { return limits.as<int32_t>(); }
  /// Room for what so many rows carry.
  void makeStates(size_t rows);
  /// What kept rows carry, of a layer whose args.out_rows was `outRows`.
  void addStates(KeptRows &kept, size_t outRows) const;
  std::vector<std::vector<float>> statesOf(size_t rows, size_t outRows) const;
  /// Of policies that merge: room for `capacity` members of a head, and what came back.
  void makeMembers(uint32_t capacity);
  void addMembers(KeptRows &kept, const int32_t *lists) const;
  rt::MemberTable members() const;
  int32_t *result(List list) const {
    return results.as<int32_t>() + list * config.kvHeads;
  }
  std::vector<int32_t> downloaded(List list) const {
    return queue.downloaded<int32_t>(result(list), config.kvHeads);
  }

  Queue &queue;
  const rt::Config &config;
  kvc_module module;
  kvc_plan_info info = {};
  uint32_t tokens = 0, layer = 0; // of the sequence; the running one
  uint32_t planned = 0;           // most tokens of the plan
  bool nan = false;
  double elapsed = 0;

private:
  const GpuWeights &weights;
  std::optional<kvc_plan> plan;
  /// A layer's projection, and what is prepared of it.
  void bringProjection(kvc_layer_args &args, uint32_t layer) const;
  Buffer table, workspace, state;
  std::vector<Buffer> prepared; // by layer, where the policy prepares anything
  Buffer results; // int32: the lists, status
  Buffer limits;  // length, budget, new queries, tokens of earlier runs
  Buffer states;  // of up to statesRows kept rows
  size_t statesRows = 0;
  Buffer memberRows, memberPositions, memberNorms; // [Hkv, memberCapacity]
  uint32_t memberCapacity = 0;
  Readback readback;
  Event begun, done; // timed, around a layer's kernels
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_GPUPOLICY_H
