//===- Files.h - what kvc-opt reads, writes and says ----------------------===//

#ifndef KVC_TOOLS_KVC_OPT_FILES_H
#define KVC_TOOLS_KVC_OPT_FILES_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>

namespace kvc {

/// Says `error: ...` on stderr; the exit status. An error ends the run, so the
/// first is the only one: what follows from it (a second opinion of the parser,
/// the pass that could not go on) says nothing new.
int fail(const llvm::Twine &message, int status = 1);

/// Says one line: where, how bad, what. An error is said as by fail; warnings
/// and, if wanted, remarks are lines of their own.
void print(mlir::Diagnostic &diagnostic, bool remarks);

/// Larger inputs are refused: a device may have no end.
constexpr size_t mostInputBytes = size_t(64) << 20;
/// A file or, for "-", standard input.
llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>>
readLimited(const std::string &path);

/// The file, or standard input for "-"; null where fail has said why not.
std::unique_ptr<llvm::MemoryBuffer> readInput(const std::string &path);

/// Writes the file as support/OutputFiles.h has it, or standard output for "-".
/// The exit status.
int writeOutput(llvm::StringRef text, const std::string &path);

} // namespace kvc

#endif // KVC_TOOLS_KVC_OPT_FILES_H
