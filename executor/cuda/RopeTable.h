//===- RopeTable.h - cosines and sines of positions, on a GPU -------------===//

#ifndef KVC_EXECUTOR_CUDA_ROPETABLE_H
#define KVC_EXECUTOR_CUDA_ROPETABLE_H

#include "executor/cuda/Queue.h"
#include "executor/model/Rope.h"

namespace kvc::gpu {

/// [positions, d / 2, 2], computed on the host as positions are reached.
class RopeTable {
public:
  RopeTable(Queue &queue, const rt::Rope &rope, uint32_t headDim)
      : queue(queue), rope(rope), headDim(headDim) {}

  /// From now on positions below `end` are there.
  void reach(uint32_t end);
  const float *at(uint32_t position) const {
    return table.as<float>() + size_t(position) * headDim;
  }

private:
  Queue &queue;
  const rt::Rope rope;
  const uint32_t headDim;
  uint32_t positions = 0;
  Buffer table;
};

} // namespace kvc::gpu

#endif // KVC_EXECUTOR_CUDA_ROPETABLE_H
