//===- AttentionBoxes.cpp -------------------------------------------------===//

#include "executor/cuda/AttentionBoxes.h"

#include "runtime/device/BoxedTensor.h"
#include "runtime/kernels/AttentionState.h"

using namespace kvc::gpu;
namespace rt = kvc::rt;

void kvc::gpu::giveBoxes(const Queue &queue, AttendArgs &args,
                         uint32_t places) {
  args.boxes = {};
  args.boxesOfTokens = !places;
  const uint32_t width = attentionWidth(args.d);
  if (args.d != width)
    return;
  const uint64_t row = uint64_t(args.d) * 2;
  rt::BoxedTensor tensor = {.data = nullptr,
                            .extents = {args.d, places, 1, 1},
                            .strides = {row, 0, 0},
                            .rows = boxRows(width, /*paged=*/false)};
  if (!places) {
    tensor.extents = {args.d, args.tokens, args.kvHeads, 1};
    tensor.strides = {row, args.tokens * row, 0};
  }
  args.boxes = places ? queue.boxes(tensor, args.cache.k, args.cache.v)
                      : queue.boxes(tensor, args.k, args.v);
}
