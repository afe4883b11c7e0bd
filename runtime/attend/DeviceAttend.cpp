//===- DeviceAttend.cpp ---------------------------------------------------===//

#include "runtime/attend/DeviceAttend.h"

#include "runtime/attend/DeviceCut.h"
#include "runtime/base/DType.h"
#include "runtime/cache/ViewArgs.h"
#include "runtime/device/ViewKernels.h"

using namespace kvc;
using namespace kvc::rt;

static const ViewKernels &kernelsOf(const AttendCall &call) {
  const kvc_cache_view &view = call.cache.fields();
  return ViewKernels::on(call.args.target, call.args.device, view.dtype,
                         view.head_dim);
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
  Launch parts = kernels.launch(ViewKernels::Attend + uint32_t(cut.sharing),
                                {cut.items, cut.splits, 1}, cut.threads, args,
                                from.stream, cut.sharedBytes);
  if (cut.splits > 1)
    kernels.launch(ViewKernels::AddParts, {cut.outputRows, 1, 1},
                   gpu::partsThreads, args, from.stream, /*sharedBytes=*/0,
                   /*front=*/&parts);
}
