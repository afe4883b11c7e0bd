//===- CommandLine.h - options of mlir-opt, errors of this project --------===//

#ifndef KVC_TOOLS_KVC_OPT_COMMANDLINE_H
#define KVC_TOOLS_KVC_OPT_COMMANDLINE_H

#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <string>

namespace llvm::cl {
class OptionCategory;
}

namespace mlir {
class DialectRegistry;
}

namespace kvc {

struct InputOutput {
  std::string input, output; // "-" is standard input or output
  std::string driverOption;  // the first one of mlir-opt's own, if any
};

/// Registers all options that mlir-opt has and reads the command line. Nothing
/// where it is wrong: one line has said why, as kvc-run says it. --help shows
/// the options of the categories in `own` and mlir-opt's. Without `plugins` there are
/// none that load these: a plugin registers its passes with MLIR's shared library, and a
/// program that has MLIR inside would know nothing of them.
std::optional<InputOutput>
parseCommandLine(int argc, char **argv, mlir::DialectRegistry &registry,
                 llvm::ArrayRef<const llvm::cl::OptionCategory *> own,
                 bool plugins);

} // namespace kvc

#endif // KVC_TOOLS_KVC_OPT_COMMANDLINE_H
