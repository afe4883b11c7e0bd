//===- Interpret.cpp - a layer written out as JSON ------------------------===//

#include "test/fuzz/Target.h"

#include "dialect/reference/Interpreter.h"
#include "dialect/reference/LayerText.h"
#include "tools/kvc-opt/ReadPolicy.h"
#include "tools/kvc-opt/Register.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace kvc;
using namespace mlir;

/// It reads queries, rows, what they carry and what is new; keeps few, and merges.
static const char *const everything = R"(
  kvc.policy @p {
    %one   = arith.constant 1 : index
    %least = arith.constant 0.5 : f32
    %new   = kvc.new_queries
    %rows  = kvc.attention last(%new) : tensor<?x?x?xf32>
    %sums  = kvc.reduce sum queries %rows : tensor<?x?x?xf32> -> tensor<?x?xf32>
    %drawn = kvc.reduce mean group %sums : tensor<?x?xf32> -> tensor<?x?xf32>
    %old   = kvc.row_state "mass" : tensor<?x?xf32>
    %mass  = arith.addf %old, %drawn : tensor<?x?xf32>
    %n     = kvc.allocate uniform : tensor<?xi32>
    %kept  = kvc.topk %mass, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
    %true  = arith.constant true
    %all   = kvc.broadcast %true : i1 to tensor<?x?xi1>
    %rest  = arith.cmpi ult, %kept, %all : tensor<?x?xi1>
    %to    = kvc.nearest %rest in %kept of raw_key times value at_least(%least) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>
    kvc.keep %kept merge(%to, %mass : tensor<?x?xi32>, tensor<?x?xf32>) protect_last(%one) carry("mass" = %mass : tensor<?x?xf32>) : tensor<?x?xi1>
  })";

static void require(llvm::Error error) {
  std::string text = llvm::toString(std::move(error));
  if (text.empty() || text.find('\n') != std::string::npos)
    fuzz::fault("an error must be one line, got '" + text + "'");
}

/// As `kvc-opt --interpret`.
KVC_FUZZ_TARGET(interpret) {
  llvm::Expected<reference::Layer> layer =
      reference::parseLayer(StringRef(bytes.data(), bytes.size()));
  if (!layer)
    return require(layer.takeError());
  static const DialectRegistry registry = [] {
    DialectRegistry all;
    registerDialects(all);
    return all;
  }();
  static MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  static OwningOpRef<ModuleOp> module = readPolicy(
      llvm::MemoryBuffer::getMemBuffer(everything, "policy.mlir"), context);
  if (!module)
    fuzz::fault("the target's own policy must be right");
  PolicyOp policy = *module->getOps<PolicyOp>().begin();
  if (llvm::Error error = reference::checkInputs(policy, *layer))
    return require(std::move(error));
  bool said = false;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &) { said = true; });
  auto kept = reference::interpret(policy, *layer);
  if (failed(kept) != said)
    fuzz::fault("what is refused must be refused with a word");
}
