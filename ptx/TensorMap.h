//===- TensorMap.h - tensors as bulk copies find them ---------------------===//
//
// What a tensor map of the driver says is its own affair; the machine has one of its own in
// the same 128 bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_TENSORMAP_H
#define KVC_PTX_TENSORMAP_H

#include "runtime/device/BoxedTensor.h"
#include "runtime/kernels/TensorMap.h"

namespace kvc::ptx {

gpu::TensorMap mapOf(const rt::BoxedTensor &tensor);

/// Throws Failure where `map`, 128 bytes at an address, is none, or breaks what a tensor's
/// map promises, and where its rows are not whole boxes.
rt::BoxedTensor tensorOf(const void *map);

/// Calls row(number, from) for each row of a box that begins at `at`, a coordinate of each
/// dimension, the first a multiple of a box's columns, with the address of its columns; 0 where
/// it is outside of the tensor.
template <typename Row>
void forRowsOfBox(const rt::BoxedTensor &tensor, std::array<int32_t, 4> at,
                  Row row) {
  auto inside = [&](uint32_t dimension, int64_t index) {
    return index >= 0 && index < int64_t(tensor.extents[dimension]);
  };
  const bool some = inside(0, at[0]) && inside(2, at[2]) && inside(3, at[3]);
  for (uint32_t i = 0; i < tensor.rows; ++i) {
    int64_t index = int64_t(at[1]) + i;
    bool there = some && inside(1, index);
    row(i, there
               ? reinterpret_cast<uint64_t>(tensor.data) + uint64_t(at[0]) * 2 +
                     uint64_t(index) * tensor.strides[0] +
                     uint64_t(at[2]) * tensor.strides[1] +
                     uint64_t(at[3]) * tensor.strides[2]
               : 0);
  }
}

} // namespace kvc::ptx

#endif // KVC_PTX_TENSORMAP_H
