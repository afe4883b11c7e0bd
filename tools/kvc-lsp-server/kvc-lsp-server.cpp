//===- kvc-lsp-server.cpp - policies in an editor --------------------------===//
//
// MLIR's language server with what a policy may name, and the documentation of ops.
//
//===----------------------------------------------------------------------===//

#include "dialect/KVCDialect.h"
#include "tools/kvc-lsp-server/Between.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/LogicalResult.h"

#include <csignal>

int main(int argc, char **argv) {
  // Who writes to an editor that is gone ends by what it is told, not by a signal.
  std::signal(SIGPIPE, SIG_IGN);
  mlir::DialectRegistry registry;
  registry.insert<kvc::KVCDialect, mlir::arith::ArithDialect,
                  mlir::math::MathDialect>();
  auto server = [&] {
    return succeeded(mlir::MlirLspServerMain(argc, argv, registry)) ? 0 : 1;
  };
  // With options it is asked for help, or speaks otherwise, to a person or a test.
  return argc > 1 ? server() : kvc::runBetween(server);
}
