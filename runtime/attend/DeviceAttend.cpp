//===- DeviceAttend.cpp ---------------------------------------------------===//

#include "runtime/attend/DeviceAttend.h"

#include "runtime/attend/DeviceCut.h"
#include "runtime/base/DType.h"
#include "runtime/cache/ViewArgs.h"
#include "runtime/device/BoxedTensor.h"
#include "runtime/device/ViewKernels.h"

using namespace kvc;
using namespace kvc::rt;

static const ViewKernels &kernelsOf(const AttendCall &call) {
  const kvc_cache_view &view = call.cache.fields();
  return ViewKernels::on(call.args.target, call.args.device, view.dtype,
                         view.head_dim);
}

/// K or V; false where boxes are not to be had of it.
static bool mapPlane(Device &device, const gpu::PlaneArgs &plane,
                     const gpu::ViewArgs &view, uint32_t rows,
                     gpu::TensorMap &map) {
  BoxedTensor tensor = {plane.data, {}, {}, rows};
  const int64_t outer = view.paged ? plane.pageStride : plane.batchStride;
  tensor.extents = {view.d, view.paged ? 1u << view.pageShift : view.slots,
                    plane.headStride ? view.kvHeads : 1,
                    !outer       ? 1
                    : view.paged ? view.pages
                                 : view.batch};
  size_t i = 0;
  for (int64_t stride : {plane.rowStride, plane.headStride, outer}) {
    if (stride < 0 || uint64_t(stride) >= BoxedTensor::endOfStrides)
      return false;
    tensor.strides[i++] = uint64_t(stride);
  }
  return device.mapTensor(tensor, map);
}

/// Whole rows of a warpgroup's width come by the bulk copy engine, where there is one.
static gpu::BoxArgs boxArgs(Device &device, const gpu::ViewArgs &view,
                            uint32_t width) {
  gpu::BoxArgs boxes = {};
  const uint32_t rows = gpu::boxRows(width, view.paged);
  bool whole = view.aligned && view.d == width && view.slots &&
               (!view.paged || (1u << view.pageShift) >= rows);
  if (whole && mapPlane(device, view.k, view, rows, boxes.k) &&
      mapPlane(device, view.v, view, rows, boxes.v))
    boxes.rows = rows;
  return boxes;
}

size_t kvc::rt::deviceWorkspaceBytes(const AttendCall &call) {
  return DeviceCut(call, kernelsOf(call).multiplyTogether()).mostWorkspaceBytes;
}

void kvc::rt::attendOnDevice(const AttendCall &call) {
  const kvc_attend_args &from = call.args;
  const kvc_cache_view &view = call.cache.fields();
  const ViewKernels &kernels = kernelsOf(call);
  DeviceCut cut(call, kernels.multiplyTogether());
  call.check(cut.workspaceBytes);
  gpu::AttendViewArgs args = {};
  args.view = viewArgs(call.cache, from.status);
  args.q = planeArgs(from.q, dtypeBytes(view.dtype));
  args.out = planeArgs(from.out, dtypeBytes(from.out_dtype));
  args.lse = from.lse;
  args.lseBatchStride = from.lse_batch_stride;
  args.lseHeadStride = from.lse_head_stride;
  args.rope = from.rope;
  args.ropePositions = from.rope_positions;
  args.group = call.group;
  args.queries = from.queries;
  args.blocks = cut.blocks;
  args.scale = call.scale();
  args.rowsAligned = rowsAligned(args.q, args.q.batchStride,
                                 view.head_dim * dtypeBytes(view.dtype));
  args.outFloat = from.out_dtype == KVC_F32;
  args.lseBase2 = from.lse_base_2 != 0;
  args.splits = cut.splits;
  args.splitKeys = cut.splitKeys;
  args.mostKeys = uint32_t(call.mostKeys);
  args.parts = static_cast<float *>(from.workspace);
  if (cut.sharing == gpu::Sharing::Keys64)
    args.boxes = boxArgs(kernels.loadedDevice(), args.view, cut.width);
  Launch parts = kernels.launch(ViewKernels::Attend + uint32_t(cut.sharing),
                                {cut.items, cut.splits, 1}, cut.threads, args,
                                from.stream, cut.sharedBytes);
  if (cut.splits > 1)
    kernels.launch(ViewKernels::AddParts, {cut.outputRows, 1, 1},
                   gpu::partsThreads, args, from.stream, /*sharedBytes=*/0,
                   /*front=*/&parts);
}
