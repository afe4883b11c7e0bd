//===- Files.cpp - what kvc-opt reads, writes and says --------------------===//

#include "tools/kvc-opt/Files.h"

#include "support/OneLine.h"
#include "support/OutputFiles.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

static bool errorIsSaid = false;

int kvc::fail(const llvm::Twine &message, int status) {
  if (!errorIsSaid)
    llvm::errs() << "error: " << oneLine(message.str()) << "\n";
  errorIsSaid = true;
  return status;
}

void kvc::print(mlir::Diagnostic &diagnostic, bool remarks) {
  using Severity = mlir::DiagnosticSeverity;
  Severity severity = diagnostic.getSeverity();
  bool error = severity == Severity::Error;
  if (error ? errorIsSaid : severity == Severity::Remark && !remarks)
    return;
  errorIsSaid |= error;
  auto where = diagnostic.getLocation()->findInstanceOf<mlir::FileLineColLoc>();
  if (where && where.getLine())
    llvm::errs() << oneLine(where.getFilename().getValue()) << ":"
                 << where.getLine() << ":" << where.getColumn() << ": ";
  llvm::errs() << (error                           ? "error: "
                   : severity == Severity::Warning ? "warning: "
                                                   : "remark: ")
               << oneLine(llvm::StringRef(diagnostic.str()).split('\n').first)
               << "\n";
}

llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>>
kvc::readLimited(const std::string &path) {
  namespace fs = llvm::sys::fs;
  bool isStandard = path == "-";
  llvm::Expected<fs::file_t> file =
      isStandard ? fs::getStdinHandle() : fs::openNativeFileForRead(path);
  if (!file)
    return llvm::errorToErrorCode(file.takeError());
  std::string text;
  std::error_code wrong;
  constexpr size_t chunk = 1 << 16;
  for (size_t got = chunk; got && !wrong;) {
    size_t had = text.size();
    text.resize(had + chunk);
    llvm::Expected<size_t> read = fs::readNativeFile(
        *file, llvm::MutableArrayRef(text.data() + had, chunk));
    got = read ? *read : 0;
    if (!read)
      wrong = llvm::errorToErrorCode(read.takeError());
    text.resize(had + got);
    if (text.size() > mostInputBytes)
      wrong = std::make_error_code(std::errc::file_too_large);
  }
  if (!isStandard)
    fs::closeFile(*file);
  if (wrong)
    return wrong;
  return llvm::MemoryBuffer::getMemBufferCopy(text,
                                              isStandard ? "<stdin>" : path);
}

std::unique_ptr<llvm::MemoryBuffer> kvc::readInput(const std::string &path) {
  auto file = readLimited(path);
  if (file)
    return std::move(*file);
  fail("cannot open input file '" + path + "': " + file.getError().message());
  return nullptr;
}

int kvc::writeOutput(llvm::StringRef text, const std::string &path) {
  if (path != "-") {
    std::string wrong = writeOutputs({{path, {text}}});
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
