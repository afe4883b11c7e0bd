//===- MergedRows.cpp - what merged rows represent, on its ways ------------===//

#include "executor/eviction/MergedRows.h"

using namespace kvc::rt;

RaggedCache::Members kvc::rt::membersOf(const MemberTable &table,
                                        uint32_t position) {
  RaggedCache::Members result;
  size_t at = 0;
  for (int32_t count : table.counts) {
    auto &head = result.emplace_back();
    for (int32_t i = 0; i < count; ++i, ++at)
      head.push_back({uint32_t(table.rows[at]),
                      position + uint32_t(table.positions[at]),
                      table.norms[at]});
  }
  return result;
}

MemberTable kvc::rt::tableOf(const RaggedCache::Members &members) {
  MemberTable table;
  for (const auto &head : members) {
    table.counts.push_back(int32_t(head.size()));
    for (const Member &member : head) {
      table.rows.push_back(int32_t(member.row));
      table.positions.push_back(int32_t(member.position));
      table.norms.push_back(member.norm);
    }
  }
  return table;
}

MemberTable kvc::rt::tableOf(const LayerTensors &layer, uint32_t heads) {
  MemberTable table;
  auto copy = [](auto &to, const auto *from, uint64_t count) {
    to.assign(from, from + count);
  };
  copy(table.counts, layer.memberCounts, heads);
  copy(table.rows, layer.memberRows, layer.members);
  copy(table.positions, layer.memberPositions, layer.members);
  copy(table.norms, layer.memberNorms, layer.members);
  return table;
}

void kvc::rt::addMembers(Tensors &tensors,
                         const std::string &prefix, const MemberTable &table) {
  if (table.counts.empty())
    return;
  uint64_t heads = table.counts.size(), entries = table.rows.size();
  tensors[prefix + "members.counts"] =
      TensorData::of("I32", {heads}, table.counts);
  tensors[prefix + "members.row"] =
      TensorData::of("I32", {entries}, table.rows);
  tensors[prefix + "members.position"] =
      TensorData::of("I32", {entries}, table.positions);
  tensors[prefix + "members.norm"] =
      TensorData::of("F32", {entries}, table.norms);
}
