//===- GuardedDevice.h - host kernels between pages without access --------===//
//
// A device that the executor takes for a GPU, so that all that a call hands over is
// copied into its memory. Each piece of that memory is a GuardedMemory, and so is, for
// the time of a launch, each scratch buffer of the workspace. Kernels are run by the
// host target. An access outside ends the process with one line: which kernel, how far
// from which argument.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_MATRIX_GUARDEDDEVICE_H
#define KVC_TEST_MATRIX_GUARDEDDEVICE_H

#include "runtime/base/Extent.h"
#include "runtime/plan/Arguments.h"
#include "test/matrix/GuardedMemory.h"

#include <optional>

namespace kvc::test {

/// What guarded devices do from now on.
struct Guarding {
  /// Which end of memory lies at a page without access.
  GuardedMemory::Edge edge = GuardedMemory::Edge::Back;
  /// The call's sizes: how large scratch buffers are.
  rt::Symbols sizes = {};
  /// This argument points so many bytes beside its memory, to see that it is noticed.
  std::optional<rt::Argument> moved;
  int64_t by = 0;
};
inline Guarding guarding;

/// The status of the process that the line ends.
constexpr int outsideStatus = 3;

/// Targets of the kind KVC_CUDA are guarded devices then.
void enableGuardedDevice();

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_GUARDEDDEVICE_H
