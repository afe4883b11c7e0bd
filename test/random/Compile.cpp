//===- Compile.cpp - a policy through the whole compiler, in process ------===//

#include "test/random/Compile.h"

#include "codegen/emit/EmitObject.h"
#include "codegen/emit/EmitPTX.h"
#include "codegen/Pipelines.h"
#include "passes/PolicyPipeline.h"
#include "passes/RankedScores.h"
#include "tools/kvc-opt/ReadPolicy.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <chrono>
#include <cstdio>
#include <fstream>

using namespace mlir;
using namespace kvc;
using namespace kvc::random;

namespace {

/// Every error, one string each.
class Errors {
public:
  explicit Errors(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            lines.push_back(diagnostic.str());
        }) {}
  std::vector<std::string> lines;

private:
  ScopedDiagnosticHandler handler;
};

kvc::Shape shapeOf(const CompileOptions &options) {
  const test::Shape &shape = options.shape;
  return {shape.headDim, shape.group,
          shape.dtype == KVC_F32   ? DType::F32
          : shape.dtype == KVC_F16 ? DType::F16
                                   : DType::BF16,
          CacheKind(options.cache), Into(options.into)};
}

/// Declarations that nobody defines.
void checkPTX(const std::string &ptx, std::vector<std::string> &faults) {
  for (size_t at = 0; (at = ptx.find(".extern .func", at)) != std::string::npos;
       at += 1)
    faults.push_back(
        "ptx: unresolved " +
        ptx.substr(at, std::min(ptx.find('\n', at), at + 90) - at));
}

/// What ptxas has to say, spills included.
void assemble(const std::string &ptx, const std::string &ptxas,
              const std::string &library, std::vector<std::string> &faults) {
  std::string file = library + ".ptx";
  std::ofstream(file) << ptx;
  std::string command =
      ptxas + " -v -arch=sm_90 -o /dev/null " + file + " 2>&1";
  FILE *pipe = popen(command.c_str(), "r");
  if (!pipe)
    return faults.push_back("ptxas: cannot be started");
  char line[1024];
  while (fgets(line, sizeof line, pipe)) {
    std::string text = line;
    bool spills =
        text.find("spill") != std::string::npos &&
        text.find(" 0 bytes spill stores, 0 bytes") == std::string::npos;
    if (spills || text.find("fatal") != std::string::npos ||
        text.find("error") != std::string::npos)
      faults.push_back((spills ? "spill: " : "ptxas: ") +
                       text.substr(0, text.size() - 1));
  }
  if (pclose(pipe) != 0 && faults.empty())
    faults.push_back("ptxas: failed");
  std::remove(file.c_str());
}

} // namespace

Compiled kvc::random::compile(MLIRContext &context, const std::string &policy,
                              const CompileOptions &options) {
  Compiled result;
  Errors errors(context);
  OwningOpRef<ModuleOp> module;
  // Passes emit an error; what comes behind them may only hand one back.
  auto refuse = [&](const std::string &fallback, bool handedBack = false) {
    result.refused = errors.lines.empty() ? fallback : errors.lines.front();
    if (errors.lines.size() > 1 || (errors.lines.empty() && !handedBack))
      result.faults.push_back(
          "refusal: " + std::to_string(errors.lines.size()) +
          " errors for one: " + result.refused);
    // What the verifier says of a pass's work is the pass's own fault, and no
    // rule for policies. (A pass that refuses may leave its work half done.)
    size_t said = errors.lines.size();
    if (module && failed(verify(*module)) && errors.lines.size() > said &&
        errors.lines[said] == result.refused)
      result.faults.push_back("verifier: a pass made what is not valid: " +
                              result.refused);
    return result;
  };
  module = readPolicy(llvm::MemoryBuffer::getMemBufferCopy(policy, "policy"),
                      context);
  if (!module)
    return refuse("does not parse");
  PassManager fuse(&context);
  buildPolicyPipeline(fuse, {}, options.pruneNorms);
  buildFusePipeline(fuse);
  if (failed(fuse.run(*module)))
    return refuse("cannot be fused");
  auto fused = *module->getOps<PolicyOp>().begin();
  result.cells = cellsOf(fused);
  if (NeedsOpInterface shown = shownRanking(fused))
    if (auto where = shown->getLoc()->findInstanceOf<FileLineColLoc>())
      result.rankedLine = where.getLine();
  fused.walk([&](Operation *op) {
    if (auto norm = dyn_cast<ProjectedNormOp>(op))
      result.bounded |= norm.getBound();
  });
  PassManager build(&context);
  buildGPUPipeline(build, shapeOf(options), options.listsAbove);
  if (failed(build.run(*module)))
    return refuse("kernels cannot be built");

  auto start = std::chrono::steady_clock::now();
  if (options.ptx) {
    llvm::Expected<std::string> ptx =
        emitPTX(*module, "sm_90", options.ptxas.empty());
    if (!ptx)
      return refuse(llvm::toString(ptx.takeError()), true);
    checkPTX(*ptx, result.faults);
    if (!options.ptxas.empty())
      assemble(*ptx, options.ptxas, options.library, result.faults);
  }
  result.ptxSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  ObjectOptions object;
  object.library = object.quick = true;
  object.chips = options.chips;
  llvm::Expected<std::string> text = emitObject(*module, object);
  if (!text)
    return refuse(llvm::toString(text.takeError()), true);
  llvm::Expected<std::string> library = linkLibrary(*text);
  if (!library)
    return refuse(llvm::toString(library.takeError()), true);
  std::ofstream(options.library, std::ios::binary) << *library;
  return result;
}
