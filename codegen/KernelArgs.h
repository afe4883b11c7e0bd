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
  /// 64-bit integer.
  Index,
  /// f32.
  Float,
};

/// What kernels do with the memory behind a pointer.
enum class ArgAccess { Read, Write };

struct ArgSpec {
  llvm::StringRef name;
  ArgKind kind;
  ArgAccess access;
};

/// Looks a name up; null if no argument has it. Names "scratch.N" are buffers
/// of the plan and are not listed here.
const ArgSpec *findArg(llvm::StringRef name);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELARGS_H
