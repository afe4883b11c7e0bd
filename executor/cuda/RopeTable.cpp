//===- RopeTable.cpp - cosines and sines of positions, on a GPU -----------===//

#include "executor/cuda/RopeTable.h"

using namespace kvc::gpu;

void RopeTable::reach(uint32_t end) {
  if (end <= positions)
    return;
  constexpr uint32_t step = 1024; // decoding comes here that rarely
  uint32_t reached = ceilDiv(end, step) * step;
  std::vector<float> angles = rope.angles(positions, reached);
  size_t before = size_t(positions) * headDim * sizeof(float);
  Buffer longer(queue, size_t(reached) * headDim * sizeof(float));
  queue.copy(longer.data(), table.data(), before);
  queue.upload(longer.data(before), angles.data(),
               angles.size() * sizeof(float));
  table = std::move(longer);
  positions = reached;
}
