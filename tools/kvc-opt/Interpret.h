//===- Interpret.h - kvc-opt as a judge: --interpret ----------------------===//

#ifndef KVC_TOOLS_KVC_OPT_INTERPRET_H
#define KVC_TOOLS_KVC_OPT_INTERPRET_H

#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
}

namespace kvc {

struct InterpretOptions {
  std::string policy, output; // "-" is standard input or output
  std::string input;          // a layer as JSON
  std::vector<std::string> params;
  bool trace = false; // the value of every op
};

/// Runs the policy on the layer, op by op in double, and writes what it keeps.
/// Errors and the exit status as of emit.
int interpret(const InterpretOptions &options, mlir::DialectRegistry &registry);

} // namespace kvc

#endif // KVC_TOOLS_KVC_OPT_INTERPRET_H
