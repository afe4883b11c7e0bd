//===- TensorMap.cpp ------------------------------------------------------===//

#include "ptx/TensorMap.h"

#include "runtime/base/Failure.h"

#include <cstring>

using namespace kvc::ptx;
using kvc::rt::BoxedTensor;
using kvc::rt::fail;

namespace {

constexpr uint64_t isMap = 0x6b76632d6d617021; // in the first word
struct Written {
  uint64_t mark;
  BoxedTensor tensor;
};
static_assert(sizeof(Written) <= sizeof(kvc::gpu::TensorMap));

} // namespace

kvc::gpu::TensorMap kvc::ptx::mapOf(const BoxedTensor &tensor) {
  Written written = {isMap, tensor};
  gpu::TensorMap map = {};
  std::memcpy(&map, &written, sizeof written);
  return map;
}

BoxedTensor kvc::ptx::tensorOf(const void *map) {
  if (reinterpret_cast<uintptr_t>(map) % alignof(gpu::TensorMap))
    throw fail(KVC_INTERNAL_ERROR,
               "a tensor map must be at a multiple of 128 bytes, got {:#x}",
               reinterpret_cast<uintptr_t>(map));
  Written written;
  std::memcpy(&written, map, sizeof written);
  const BoxedTensor &tensor = written.tensor;
  if (written.mark != isMap)
    throw fail(KVC_INTERNAL_ERROR, "a tensor map must be one, got {:#x}",
               written.mark);
  if (tensor.extents[0] % BoxedTensor::columns)
    throw fail(KVC_UNSUPPORTED,
               "a tensor map must have rows of whole boxes of {}, got {}",
               BoxedTensor::columns, tensor.extents[0]);
  bool fits = reinterpret_cast<uint64_t>(tensor.data) % 16 == 0 &&
              tensor.rows && tensor.rows <= 256;
  for (uint64_t stride : tensor.strides)
    fits &= stride % 16 == 0 && stride < BoxedTensor::endOfStrides;
  for (uint32_t extent : tensor.extents)
    fits &= extent > 0;
  if (!fits)
    throw fail(KVC_INTERNAL_ERROR,
               "a tensor map must have extents, boxes of 1 to 256 rows, and an "
               "address and strides of multiples of 16 bytes, got {:#x}, rows "
               "of {} bytes and {} of a box",
               reinterpret_cast<uint64_t>(tensor.data), tensor.strides[0],
               tensor.rows);
  return tensor;
}
