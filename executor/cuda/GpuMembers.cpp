//===- GpuMembers.cpp - what the rows of a merged layer represent ---------===//

#include "executor/cuda/GpuMembers.h"

using namespace kvc::gpu;
namespace rt = kvc::rt;

void GpuMembers::make(Queue &queue, uint32_t heads) {
  hostCounts.assign(heads, 0);
  counts = queue.uploaded(hostCounts);
  layOut(queue, 0, 0);
}

GpuMembers GpuMembers::copy(Queue &queue) const {
  GpuMembers to;
  for (Buffer GpuMembers::*buffer : {&GpuMembers::rows, &GpuMembers::positions,
                                     &GpuMembers::norms, &GpuMembers::counts})
    to.*buffer = queue.cloned(this->*buffer);
  to.hostCounts = hostCounts;
  to.capacity = capacity;
  return to;
}

void GpuMembers::move(Queue &queue, MoveMembersArgs args, uint32_t longest) {
  args.toRows = rows.as<int32_t>();
  args.toPositions = positions.as<int32_t>();
  args.toNorms = norms.as<float>();
  args.to.stride = capacity;
  queue.launch("move_members", {ceilDiv(longest, moveThreads), heads(), 1},
               moveThreads, args);
}

void GpuMembers::layOut(Queue &queue, uint32_t extra, uint32_t longest) {
  GpuMembers old = std::move(*this);
  *this = {};
  hostCounts = old.hostCounts;
  counts = std::move(old.counts);
  capacity = std::max(longest, 1u);
  size_t bytes = size_t(heads()) * capacity * sizeof(int32_t);
  for (Buffer *list : {&rows, &positions, &norms})
    *list = Buffer(queue, bytes);
  move(queue,
       {.fromRows = old.rows.as<int32_t>(),
        .fromPositions = old.positions.as<int32_t>(),
        .fromNorms = old.norms.as<float>(),
        .from = {.stride = old.capacity},
        .counts = counts.as<int32_t>(),
        .extra = extra},
       most(hostCounts) + extra);
}

void GpuMembers::reserve(Queue &queue, uint32_t extra, uint32_t room) {
  if (uint32_t longest = most(hostCounts) + room; longest > capacity)
    layOut(queue, extra, longest);
}

void GpuMembers::count(Queue &queue, uint32_t extra) {
  for (int32_t &count : hostCounts)
    count += int32_t(extra);
  counts = queue.uploaded(hostCounts);
}

void GpuMembers::append(Queue &queue, const KeptMembers &kept,
                        const int32_t *before, uint32_t extra,
                        uint32_t position, uint32_t room) {
  std::vector<int32_t> all = hostCounts;
  for (uint32_t h = 0; h < heads(); ++h)
    all[h] += int32_t(extra) + kept.hostCounts[h];
  layOut(queue, extra, most(all) + room);
  move(queue,
       {.fromRows = kept.rows,
        .fromPositions = kept.positions,
        .fromNorms = kept.norms,
        .from = {.stride = kept.capacity},
        .to = {.plus = counts.as<int32_t>(), .extra = extra},
        .counts = kept.counts,
        .addRows = before,
        .addRow = int32_t(extra),
        .addPosition = int32_t(position)},
       most(kept.hostCounts));
  hostCounts = std::move(all);
  counts = queue.uploaded(hostCounts);
}

kvc_member_table GpuMembers::table() const {
  return {.struct_size = sizeof(kvc_member_table),
          .rows = rows.as<int32_t>(),
          .positions = positions.as<int32_t>(),
          .norms = norms.as<float>(),
          .counts = counts.as<int32_t>(),
          .capacity = capacity};
}

MembersArgs GpuMembers::args() const {
  return {.rows = rows.as<int32_t>(),
          .positions = positions.as<int32_t>(),
          .norms = norms.as<float>(),
          .counts = counts.as<int32_t>(),
          .capacity = capacity};
}

rt::RaggedCache::Members GpuMembers::contents(Queue &queue,
                                              uint32_t extra) const {
  size_t entries = size_t(heads()) * capacity;
  auto row = queue.downloaded<uint32_t>(rows.data(), entries);
  auto place = queue.downloaded<uint32_t>(positions.data(), entries);
  auto norm = queue.downloaded<float>(norms.data(), entries);
  rt::RaggedCache::Members all(heads());
  for (uint32_t h = 0; h < heads(); ++h)
    for (uint32_t i = 0; i < uint32_t(hostCounts[h]) + extra; ++i) {
      size_t at = size_t(h) * capacity + i;
      all[h].push_back({row[at], place[at], norm[at]});
    }
  return all;
}
