//===- Files.cpp - what kvc-opt reads, writes and says --------------------===//

#include "tools/kvc-opt/Files.h"

#include "support/OutputFiles.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

int kvc::fail(const llvm::Twine &message, int status) {
  llvm::errs() << "error: " << message << "\n";
  return status;
}

std::unique_ptr<llvm::MemoryBuffer> kvc::readInput(const std::string &path) {
  std::string message;
  auto file = mlir::openInputFile(path, &message);
  if (!file)
    fail(message);
  return file;
}

int kvc::writeOutput(llvm::StringRef text, const std::string &path) {
  if (path != "-") {
    std::string wrong = writeOutputs({{path, text.str()}});
    return wrong.empty() ? 0 : fail(wrong);
  }
  llvm::outs() << text;
  llvm::outs().flush();
  if (std::error_code code = llvm::outs().error()) {
    llvm::outs().clear_error();
    return fail("cannot write standard output: " + code.message());
  }
  return 0;
}
