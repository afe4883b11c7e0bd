//===- Cut.cpp - how a call of attention becomes items of work ------------===//

#include "runtime/attend/Cut.h"

#include <algorithm>

using namespace kvc::rt;

static constexpr uint32_t fewBlocks = 4;
static constexpr uint32_t keysOfASplit =
    2048; // 1 MiB at head_dim 128 and 16 bits

static uint64_t parts(uint64_t of, uint64_t size) {
  return (of + size - 1) / size;
}

Cut::Cut(uint32_t sequences, uint32_t heads, uint32_t group, uint32_t queries,
         uint64_t mostKeys)
    : sequences(sequences), heads(heads), group(group), mostKeys(mostKeys) {
  queryRows = group * queries;
  blocks = uint32_t(parts(queryRows, tileRows));
  splitKeys = blocks <= fewBlocks ? keysOfASplit : INT32_MAX;
  splits = std::max(1u, uint32_t(parts(mostKeys, splitKeys)));
}

Item Cut::item(uint64_t index) const {
  Item item = {};
  item.split = uint32_t(index % splits);
  item.number = index / splits;
  item.block = uint32_t(item.number % blocks);
  item.head = uint32_t(item.number / blocks % heads);
  item.sequence = uint32_t(item.number / blocks / heads);
  item.firstRow = item.block * tileRows;
  item.rows = std::min(tileRows, queryRows - item.firstRow);
  return item;
}

uint32_t Cut::splitsOf(uint32_t keys) const {
  return std::max(1u, uint32_t(parts(keys, splitKeys)));
}

size_t Cut::workspaceBytes(uint32_t dim) const {
  if (splits == 1)
    return 0;
  size_t counters = parts(items() / splits * sizeof(uint32_t), 64) * 64;
  return counters + items() * partFloats(dim) * sizeof(float);
}

size_t Cut::mostWorkspaceBytes(uint32_t dim) const {
  uint32_t queries =
      fewBlocks * tileRows / group; // the most whose keys are split
  if (blocks <= fewBlocks || queries == 0)
    return workspaceBytes(dim);
  return Cut(sequences, heads, group, queries, mostKeys).workspaceBytes(dim);
}
