//===- ReadPolicy.h - the text of a policy, within limits -----------------===//

#ifndef KVC_TOOLS_KVC_OPT_READPOLICY_H
#define KVC_TOOLS_KVC_OPT_READPOLICY_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/MemoryBuffer.h"

namespace kvc {

/// Parser, verifiers and passes call themselves for what is nested or chained,
/// so a text of some hundred kilobytes could take any stack. Of a number it
/// takes the square of its digits, and for %x#N memory for N values. These are ten
/// times and more what a policy needs (docs/architecture.md names them).
constexpr size_t mostPolicyBytes = 1 << 20;
constexpr size_t mostNesting = 100;
constexpr size_t mostAlias = 1000;  // characters, aliases in it written out
constexpr size_t mostWord = 1000;   // characters of a name or a number
constexpr size_t mostResult = 1000; // what N of %x#N is at most
constexpr size_t mostOps = 2000;

/// Emits an error where `text` goes beyond; reads no further.
mlir::LogicalResult checkPolicyText(llvm::MemoryBufferRef text,
                                    mlir::MLIRContext &context);

/// The same for the file of that name; what cannot be read is nobody's error
/// here.
mlir::LogicalResult checkPolicyFile(const std::string &path);

/// The module of a text with one kvc.policy; null after an error.
mlir::OwningOpRef<mlir::ModuleOp>
readPolicy(std::unique_ptr<llvm::MemoryBuffer> text,
           mlir::MLIRContext &context);

} // namespace kvc

#endif // KVC_TOOLS_KVC_OPT_READPOLICY_H
