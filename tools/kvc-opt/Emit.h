//===- Emit.h - kvc-opt as a compiler: --emit -----------------------------===//

#ifndef KVC_TOOLS_KVC_OPT_EMIT_H
#define KVC_TOOLS_KVC_OPT_EMIT_H

#include <optional>
#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
}

namespace kvc {

enum class Level {
  None, // an ordinary pass driver
  Policy,
  Fused,
  GPU,
  PTX,
  Host,
  Object,
  Header,
  Library,
  Manifest
};

struct EmitOptions {
  Level level = Level::None;
  std::string input, output; // "-" is standard input or output
  std::vector<std::string> shapes, models, chips, params;
  std::string hostTriple, hostCPU; // as ObjectOptions has them
  bool hostWarps = false;
  bool remarks = false;
  bool pruneNorms = false;
  std::optional<int64_t> listsAbove; // of convert-kvc-to-gpu
};

/// Compiles to the level. Errors are one line each on stderr; the result is the
/// exit status. Nothing is written unless all went well.
int emit(const EmitOptions &options, mlir::DialectRegistry &registry);

} // namespace kvc

#endif // KVC_TOOLS_KVC_OPT_EMIT_H
