//===- Files.h - what kvc-opt reads, writes and says ----------------------===//

#ifndef KVC_TOOLS_KVCOPT_FILES_H
#define KVC_TOOLS_KVCOPT_FILES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <string>

namespace kvc {

/// Says `error: ...` on stderr; the exit status.
int fail(const llvm::Twine &message, int status = 1);

/// The file, or standard input for "-"; null where fail has said why not.
std::unique_ptr<llvm::MemoryBuffer> readInput(const std::string &path);

/// Writes the file as support/OutputFiles.h has it, or standard output for "-".
/// The exit status.
int writeOutput(llvm::StringRef text, const std::string &path);

} // namespace kvc

#endif // KVC_TOOLS_KVCOPT_FILES_H
