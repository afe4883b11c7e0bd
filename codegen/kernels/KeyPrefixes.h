//===- KeyPrefixes.h - what selections compare of scores, in 16 bits ------===//
//
// kvc.key_prefix: the upper 15 bits of a score's key, below a bit that is 1. Words have two of
// them, compared by one subtraction (ShortPasts.cpp). Of each two splits of a head the tokens
// that have the same number lie beside each other: large scores are near each other, and so
// what a lane finds in its words is spread.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_KEYPREFIXES_H
#define KVC_CODEGEN_KERNELS_KEYPREFIXES_H

#include "codegen/kernels/Kernels.h"

namespace kvc {

constexpr int64_t prefixBits = 15;
/// Of two splits. A head has a multiple of so many in memory.
constexpr int64_t prefixesTogether = 2 * splitTokens;

/// True for a tensor of them.
bool isPrefixes(mlir::Type type);
/// i16.
Expr keyPrefix(KernelBuilder &k, Expr score);
/// Scratch that has them, [batch][kv_heads][tokens]: index by token.
Buffer prefixBuffer(KernelBuilder &k, llvm::StringRef name);

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_KEYPREFIXES_H
