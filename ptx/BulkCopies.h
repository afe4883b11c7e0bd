//===- BulkCopies.h - boxes of a tensor on their way to shared memory -----===//

#ifndef KVC_PTX_BULKCOPIES_H
#define KVC_PTX_BULKCOPIES_H

#include "ptx/Program.h"
#include "runtime/device/BoxedTensor.h"

namespace kvc::ptx {

/// What a lane asks for by cp.async.bulk.tensor.
struct BoxCopy {
  uint64_t to;
  rt::BoxedTensor tensor;
  std::array<int32_t, 4> from; // a coordinate of each dimension
  uint64_t arrival;            // the mbarrier

  /// Throws Failure where the tensor's map is none (TensorMap.h).
  BoxCopy(const Warp &warp, const Instruction &op, uint32_t lane);
  uint64_t bytes() const {
    return uint64_t(tensor.rows) * rt::BoxedTensor::rowBytes;
  }
};

} // namespace kvc::ptx

#endif // KVC_PTX_BULKCOPIES_H
