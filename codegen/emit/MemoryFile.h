//===- MemoryFile.h - a file without a name -------------------------------===//

#ifndef KVC_CODEGEN_EMIT_MEMORYFILE_H
#define KVC_CODEGEN_EMIT_MEMORYFILE_H

#include "llvm/Support/Error.h"

#include <string>

namespace kvc {

/// A file in memory, which this process and those that inherit it see as `path`.
class MemoryFile {
public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;

  llvm::Error write(llvm::StringRef text);
  llvm::Expected<std::string> read();

  /// Negative where there is none.
  const int descriptor;
  const std::string path;
};

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_MEMORYFILE_H
