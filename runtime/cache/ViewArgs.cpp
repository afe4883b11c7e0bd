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

bool kvc::rt::rowsAligned(const gpu::PlaneArgs &plane, int64_t outer,
                          uint64_t rowBytes) {
  auto ok = [](auto value) { return uint64_t(value) % 16 == 0; };
  return ok(reinterpret_cast<uintptr_t>(plane.data)) && ok(rowBytes) &&
         ok(plane.headStride) && ok(plane.rowStride) && ok(outer);
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
  args.aligned = 1;
  args.positionsBySlot = view.positions_by_slot != 0;
  args.headsMeet = headsMeet(view);
  args.sequencesMeet = sequencesMeet(view);
  for (const gpu::PlaneArgs *plane : {&args.k, &args.v})
    args.aligned &=
        rowsAligned(*plane, args.paged ? plane->pageStride : plane->batchStride,
                    view.head_dim * bytes);
  args.status = status;
  return args;
}
