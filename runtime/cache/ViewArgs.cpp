//===- ViewArgs.cpp -------------------------------------------------------===//

#include "runtime/cache/ViewArgs.h"

#include "runtime/base/DType.h"

#include <algorithm>

using namespace kvc;
using namespace kvc::rt;

gpu::PlaneArgs kvc::rt::planeArgs(const kvc_plane &plane, size_t bytes) {
  auto size = int64_t(bytes);
  return {static_cast<char *>(plane.data), plane.batch_stride * size,
          plane.head_stride * size, plane.row_stride * size,
          plane.page_stride * size};
}

gpu::PlaneArgs kvc::rt::planeArgs(const kvc_rows &rows, size_t bytes) {
  return planeArgs(kvc_plane{const_cast<void *>(rows.data), rows.batch_stride,
                             rows.head_stride, rows.row_stride, 0},
                   bytes);
}

static gpu::NumbersArgs numbersArgs(const kvc_numbers &numbers) {
  return {numbers.data, numbers.batch_stride, numbers.head_stride};
}

/// True where every row begins and ends at a multiple of 16 bytes.
static bool isAligned(const gpu::PlaneArgs &plane, bool paged,
                      uint64_t rowBytes) {
  auto ok = [](uint64_t value) { return value % 16 == 0; };
  return ok(reinterpret_cast<uintptr_t>(plane.data)) && ok(rowBytes) &&
         ok(uint64_t(plane.headStride)) && ok(uint64_t(plane.rowStride)) &&
         ok(uint64_t(paged ? plane.pageStride : plane.batchStride));
}

gpu::ViewArgs kvc::rt::viewArgs(const CacheView &cache, int32_t *status) {
  const kvc_cache_view &view = cache.fields();
  size_t bytes = dtypeBytes(view.dtype);
  gpu::ViewArgs args = {};
  args.k = planeArgs(view.k, bytes);
  args.v = planeArgs(view.v, bytes);
  args.positions = planeArgs(view.positions, sizeof(int32_t));
  args.counts = numbersArgs(view.counts);
  args.offsets = numbersArgs(view.offsets);
  args.table = numbersArgs(view.table);
  args.vTable = numbersArgs(view.v_table);
  args.lengths = view.lengths;
  if (const kvc_member_table *members = cache.members())
    args.members = {members->rows, members->positions, members->norms,
                    members->counts, members->capacity};
  args.batch = view.batch;
  args.kvHeads = view.kv_heads;
  args.d = view.head_dim;
  args.slots = uint32_t(std::min<uint64_t>(slotsOf(view), INT32_MAX));
  args.paged = view.kind == KVC_PAGED;
  if (args.paged) {
    args.pageShift = uint32_t(__builtin_ctz(view.page_rows));
    args.pages = view.pages;
  }
  args.positionsBySlot = view.positions_by_slot != 0;
  args.headsMeet = headsMeet(view);
  args.sequencesMeet = sequencesMeet(view);
  args.aligned = isAligned(args.k, args.paged, view.head_dim * bytes) &&
                 isAligned(args.v, args.paged, view.head_dim * bytes);
  args.status = status;
  return args;
}
