//===- Policy.cpp - policies as kvc-opt compiles them --------------------===//

#include "test/fuzz/Target.h"

#include "codegen/Pipelines.h"
#include "passes/PolicyPipeline.h"
#include "tools/kvc-opt/ReadPolicy.h"
#include "tools/kvc-opt/Register.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

using namespace kvc;
using namespace mlir;

/// As `kvc-opt --emit`: what is refused is refused with a word.
static void compile(std::string_view bytes, bool toGPU) {
  static const DialectRegistry registry = [] {
    DialectRegistry all;
    registerDialects(all);
    return all;
  }();
  // One for each input: types and attributes live as long as it does.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  bool said = false;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return;
    said = true;
    if (diagnostic.str().empty())
      fuzz::fault("an error must say something");
  });
  auto text = llvm::MemoryBuffer::getMemBufferCopy(
      StringRef(bytes.data(), bytes.size()), "policy.mlir");
  OwningOpRef<ModuleOp> module = readPolicy(std::move(text), context);
  bool done = bool(module);
  if (done) {
    PassManager manager(&context);
    buildPolicyPipeline(manager, {});
    buildFusePipeline(manager);
    if (toGPU)
      buildGPUPipeline(manager, {{64, 2, DType::F32}});
    done = succeeded(manager.run(*module));
  }
  if (!done && !said)
    fuzz::fault("what is refused must be refused with a word");
  if (done && !toGPU) {
    std::string printed;
    llvm::raw_string_ostream(printed) << *module;
  }
}

/// To level fused: fast.
KVC_FUZZ_TARGET(policy) { compile(bytes, false); }
/// To level gpu, policies and hand-written text of level fused.
KVC_FUZZ_TARGET(lowered) { compile(bytes, true); }
