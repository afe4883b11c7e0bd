//===- CommandLine.cpp - options of mlir-opt, errors of this project ------===//

#include "tools/kvc-opt/CommandLine.h"

#include "tools/kvc-opt/Files.h"

#include "mlir/Debug/Counter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;

namespace {

/// Collects what is written to stderr. Options print their errors there
/// themselves, on one line or several, whatever stream the parser is given.
class StderrCapture {
public:
  StderrCapture()
      : real(dup(STDERR_FILENO)), memory(memfd_create("stderr", MFD_CLOEXEC)) {
    if (real >= 0 && memory >= 0)
      dup2(memory, STDERR_FILENO);
    active = this;
  }
  ~StderrCapture() {
    take();
    close(real);
    close(memory);
  }
  StderrCapture(const StderrCapture &) = delete;

  /// Ends the collecting.
  std::string take() {
    std::string text;
    if (!active)
      return text;
    active = nullptr;
    if (real >= 0 && memory >= 0) {
      dup2(real, STDERR_FILENO);
      char part[4096];
      lseek(memory, 0, SEEK_SET);
      for (ssize_t count; (count = read(memory, part, sizeof part)) > 0;)
        text.append(part, size_t(count));
    }
    return text;
  }

  static StderrCapture *active;

private:
  const int real, memory;
};
StderrCapture *StderrCapture::active = nullptr;

/// LLVM's own last words, on one line and without a stack. They may come in the
/// middle of the parsing: --help ends the program there.
void sayFatal(void *, const char *message, bool) {
  if (StderrCapture::active)
    StderrCapture::active->take();
  kvc::fail(message);
  std::_Exit(1);
}

} // namespace

/// "kvc-opt: Unknown command line argument '--x'.  Try: 'kvc-opt --help'" and a
/// second line with a guess: the reason alone.
static StringRef reason(StringRef said) {
  StringRef line = said.split('\n').first;
  line.consume_front("kvc-opt: ");
  return line.split(".  Try: ").first;
}

/// The first option of the command line that is not among `known`, as it is
/// written there without its value; empty where there is none.
static std::string firstBeside(const StringSet<> &known,
                               ArrayRef<char *> words) {
  for (StringRef word : words) {
    if (word == "--")
      break;
    StringRef name = word.ltrim('-').split('=').first;
    const cl::Option *option = cl::getRegisteredOptions().lookup(name);
    if (word.starts_with("-") && option && option->getNumOccurrences() &&
        !known.contains(name))
      return name.str();
  }
  return "";
}

std::optional<kvc::InputOutput>
kvc::parseCommandLine(int argc, char **argv, mlir::DialectRegistry &registry,
                      ArrayRef<const cl::OptionCategory *> own, bool plugins) {
  // What is there by now beside the program's own are the options of LLVM's
  // libraries, hundreds: they work, and --help is about this program.
  cl::HideUnrelatedOptions(own);
  static cl::opt<std::string> input(cl::Positional, cl::desc("<input file>"),
                                    cl::init("-"));
  static cl::opt<std::string> output("o", cl::desc("Output filename"),
                                     cl::value_desc("filename"), cl::init("-"));
  mlir::registerAsmPrinterCLOptions(); // what is printed at a level, too
  StringSet<> known;
  for (StringRef name : cl::getRegisteredOptions().keys())
    known.insert(name);
  mlir::MlirOptMainConfig::registerCLOptions(registry);
  if (!plugins)
    for (StringRef name : {"load-dialect-plugin", "load-pass-plugin"})
      cl::getRegisteredOptions().lookup(name)->removeArgument();
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  mlir::tracing::DebugCounter::registerCLOptions();
  install_fatal_error_handler(sayFatal);
  StderrCapture capture;
  bool good = cl::ParseCommandLineOptions(
      argc, argv, "kvc: compiler for KV-cache eviction policies", &errs());
  std::string said = capture.take();
  if (!good) {
    fail(reason(said), 2);
    return std::nullopt;
  }
  errs() << said;
  if (output.getNumOccurrences() > 1) {
    fail("-o is given once, got it " + Twine(output.getNumOccurrences()) +
             " times",
         2);
    return std::nullopt;
  }
  return InputOutput{input, output,
                     firstBeside(known, ArrayRef(argv, argc).drop_front())};
}
