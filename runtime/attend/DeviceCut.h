//===- DeviceCut.h - how attention on a GPU becomes blocks ----------------===//

#ifndef KVC_RUNTIME_ATTEND_DEVICECUT_H
#define KVC_RUNTIME_ATTEND_DEVICECUT_H

#include "runtime/attend/AttendCall.h"
#include "runtime/kernels/AttentionState.h"

namespace kvc::rt {

/// How work is cut follows from the call's numbers, and of the GPU's from one alone: whether
/// four of its warps multiply together. The same sums are made on all that do, and on all
/// that do not. Splits are of so many keys, whatever the head has, so a
/// head of eight times the rows has eight times the blocks.
struct DeviceCut {
  DeviceCut(const AttendCall &call, bool together);

  gpu::Sharing sharing; // what a block's warps share
  uint32_t blocks;      // of a KV head's query rows
  uint32_t items;       // blocks of all heads and sequences
  uint32_t splits;      // of the keys
  uint32_t splitKeys;   // keys of one
  uint32_t outputRows;
  uint32_t width, threads; // of the kernels
  uint32_t sharedBytes;    // of a block, that the launch gives
  size_t workspaceBytes;
  /// Of calls of as many queries and sequences and of fewer.
  size_t mostWorkspaceBytes;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_ATTEND_DEVICECUT_H
