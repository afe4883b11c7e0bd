//===- KernelArgs.h - the vocabulary of kernel arguments ------------------===//
//
// A kernel's arguments are a list of names. The manifest carries the list; what
// each name means is in kvc/arguments.def, which the runtime reads too.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELARGS_H
#define KVC_CODEGEN_KERNELARGS_H

#include "llvm/ADT/StringRef.h"

namespace kvc {

enum class ArgKind {
  /// Pointer to elements of the model's type.
  Elements,
  /// Pointer to f32.
  Floats,
  /// Pointer to i32.
  Integers,
  /// The same, none negative.
  Naturals,
  /// The same, each 0 to KVC_MAX_COUNT (kvc/artifact.h).
  Counts,
  /// 64-bit integer.
  Index,
  /// The same, of 32 bits: how far rows or pages are apart, in elements.
  Stride,
  /// The same, 0 to KVC_MAX_COUNT.
  Count,
  /// f32.
  Float,
};

/// What kernels do with the memory behind a pointer. Made: they read what an earlier
/// launch of the same call may have made.
enum class ArgAccess { Read, Write, Made };

struct ArgSpec {
  llvm::StringRef name;
  ArgKind kind;
  ArgAccess access;

  /// True for integers, which are passed as 64 bits.
  bool isNumber() const {
    return kind == ArgKind::Index || kind == ArgKind::Stride ||
           kind == ArgKind::Count;
  }
};

/// Looks a name up; null if no argument has it. Names "scratch.N" are buffers
/// of the plan and are not listed here.
const ArgSpec *findArg(llvm::StringRef name);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELARGS_H
