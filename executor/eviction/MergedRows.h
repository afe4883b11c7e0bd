//===- MergedRows.h - what merged rows represent, on its ways --------------===//

#ifndef KVC_EXECUTOR_EVICTION_MERGEDROWS_H
#define KVC_EXECUTOR_EVICTION_MERGEDROWS_H

#include "executor/eviction/KeptLayer.h"
#include "executor/io/LayerFile.h"
#include "executor/model/RaggedCache.h"

namespace kvc::rt {

/// A policy's table as a cache has it, positions counted from `position`, and back.
RaggedCache::Members membersOf(const MemberTable &table, uint32_t position);
MemberTable tableOf(const RaggedCache::Members &members);
/// That of a layer of a merged cache.
MemberTable tableOf(const LayerTensors &layer, uint32_t heads);

/// Adds members.counts, .row, .position and .norm behind `prefix`; nothing of a table
/// without heads.
void addMembers(Tensors &tensors,
                const std::string &prefix, const MemberTable &table);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_EVICTION_MERGEDROWS_H
