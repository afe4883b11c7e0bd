//===- Linker.h - the linker ld.lld ---------------------------------------===//
//
// The build decides whose it is (KVC_STATIC_LLVM): that of the machine
// (MachineLinker.cpp), or for machines without one this program itself (OwnLinker.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_EMIT_LINKER_H
#define KVC_CODEGEN_EMIT_LINKER_H

#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace kvc {

struct LinkerProgram {
  std::string path;
  /// What it is called by, also in errors.
  std::string name;
};

/// Or why there is none.
llvm::Expected<LinkerProgram> findLinker();

/// Where this program was called by the linker's name and has a linker of its own: links,
/// and gives the code to end with.
std::optional<int> runAsLinker(int argc, char **argv);

struct LinkerEnd {
  std::string name;
  int code;
  /// All that it wrote for the user, or why it could not be run.
  std::string said;
};

/// Links the object in the file `input` to a shared library in the file `output`, which
/// is there and empty.
llvm::Expected<LinkerEnd> runLinker(const std::string &input,
                                    const std::string &output);

} // namespace kvc

#endif // KVC_CODEGEN_EMIT_LINKER_H
