//===- KernelArgs.h - the vocabulary of kernel arguments ------------------===//
//
// A kernel's arguments are a list of names. The manifest carries the list; the
// runtime knows what each name is bound to. Both sides check every name.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_KERNELARGS_H
#define KVC_CODEGEN_KERNELS_KERNELARGS_H

#include "llvm/ADT/ArrayRef.h"
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

struct ArgSpec {
  llvm::StringRef name;
  ArgKind kind;
  bool readOnly;
  llvm::StringRef meaning;
};

/// Looks a name up; null if no argument has it. Names "scratch.N" are buffers
/// of the plan and are not listed here.
const ArgSpec *findArg(llvm::StringRef name);

/// All of them, in the order of the documentation.
llvm::ArrayRef<ArgSpec> allArgs();

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_KERNELARGS_H
