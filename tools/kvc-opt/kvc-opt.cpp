//===- kvc-opt.cpp - the pass driver, the compiler and the reference ------===//
//
// Without --emit and --interpret an ordinary mlir-opt for the passes of this
// project.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/Linker.h"
#include "support/OutputFiles.h"
#include "tools/kvc-opt/CommandLine.h"
#include "tools/kvc-opt/Emit.h"
#include "tools/kvc-opt/Files.h"
#include "tools/kvc-opt/Interpret.h"
#include "tools/kvc-opt/ReadPolicy.h"
#include "tools/kvc-opt/Register.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"

#include <functional>

namespace cl = llvm::cl;
using kvc::Level;

/// An ordinary mlir-opt.
static int runPasses(int argc, char **argv, const kvc::InputOutput &files,
                     mlir::DialectRegistry &registry) {
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(
        mlir::MlirOptMain(argc, argv, files.input, files.output, registry));
  auto file = kvc::readInput(files.input);
  if (!file)
    return 1;
  std::string text;
  llvm::raw_string_ostream stream(text);
  bool good =
      succeeded(mlir::MlirOptMain(stream, std::move(file), registry, config));
  // With --split-input-file some of it may be good, which is for looking at.
  int written =
      good || files.output == "-" ? kvc::writeOutput(text, files.output) : 0;
  return good ? written : 1;
}

using Options = std::initializer_list<std::reference_wrapper<const cl::Option>>;

/// The values without those given twice.
static std::vector<std::string> distinct(const cl::list<std::string> &values) {
  std::vector<std::string> result;
  for (const std::string &value : values)
    if (!llvm::is_contained(result, value))
      result.push_back(value);
  return result;
}

int main(int argc, char **argv) {
  if (std::optional<int> code = kvc::runAsLinker(argc, argv))
    return *code;
  kvc::reserveStandardDescriptors();
  llvm::InitLLVM init(argc, argv);
  kvc::ignoreFileSizeSignal();
  cl::AddExtraVersionPrinter(
      [](llvm::raw_ostream &out) { out << "kvc " KVC_VERSION "\n"; });
  cl::OptionCategory category("kvc-opt as a compiler");
  cl::opt<Level> level(
      "emit", cl::desc("Compile the policy to this level"),
      cl::values(clEnumValN(Level::Policy, "policy", "parameters bound"),
                 clEnumValN(Level::Fused, "fused", "kernels formed"),
                 clEnumValN(Level::GPU, "gpu", "kernels built"),
                 clEnumValN(Level::PTX, "ptx", "PTX of one chip"),
                 clEnumValN(Level::Host, "host", "LLVM IR of the host kernels"),
                 clEnumValN(Level::Object, "object", "object file to link"),
                 clEnumValN(Level::Header, "header", "its C header"),
                 clEnumValN(Level::Library, "library", "shared object"),
                 clEnumValN(Level::Manifest, "manifest", "JSON")),
      cl::init(Level::None), cl::cat(category));
  cl::list<std::string> shapes(
      "shape",
      cl::desc("head_dim=N,group=N,dtype=f32|f16|bf16[,cache=dense|ragged|"
               "paged|merged|merged_paged]"
               "[,into=packed|ragged|paged] (repeat for several variants)"),
      cl::cat(category));
  cl::list<std::string> models("model",
                               cl::desc("Read the shape from DIR/config.json"),
                               cl::cat(category));
  cl::list<std::string> chips("chip",
                              cl::desc("GPU, sm_80 or later (repeat); sm_90a: "
                                       "kernels by warpgroups, beside "
                                       "others those alone; none: host "
                                       "kernels only"),
                              cl::cat(category));
  cl::list<std::string> params(
      "param", cl::desc("NAME=VALUE, overrides a parameter (repeat)"),
      cl::cat(category));
  cl::opt<std::string> hostTriple(
      "host-triple",
      cl::desc("Machine of the host kernels, such as aarch64-linux-gnu "
               "(default: this one)"),
      cl::cat(category));
  cl::opt<std::string> hostCPU(
      "host-cpu",
      cl::desc("Processor of the host kernels: generic, native or "
               "a name that LLVM knows; generic,x86-64-v4 is for AVX-512 too"),
      cl::init("generic"), cl::cat(category));
  enum class HostForms { Both, Threads };
  cl::opt<HostForms> hostForms(
      "host-forms", cl::desc("What the host kernels are compiled for"),
      cl::values(clEnumValN(HostForms::Both, "both",
                            "warps, and threads one by one (default)"),
                 clEnumValN(HostForms::Threads, "threads",
                            "threads: slower, and sooner compiled")),
      cl::init(HostForms::Both), cl::cat(category));
  cl::opt<bool> remarks("remarks", cl::desc("Print what was fused"),
                        cl::cat(category));

  cl::opt<bool> pruneNorms(
      "prune-norms",
      cl::desc("Compute norms behind the output projection only where they "
               "can decide: the same kept set, by more and smaller kernels"),
      cl::cat(category));

  cl::opt<int64_t> listsAbove(
      "lists-above",
      cl::desc("Longest sequence of a call, in tokens, whose heads are "
               "selected from without a kernel that lists candidates"),
      cl::cat(category));

  cl::OptionCategory judging("kvc-opt as a judge");
  cl::opt<bool> interpreting(
      "interpret",
      cl::desc("Run the policy on --input, op by op in double, and print what "
               "it keeps"),
      cl::cat(judging));
  cl::opt<std::string> input(
      "input", cl::desc("JSON of one layer: k, q, budget and the like"),
      cl::value_desc("filename"), cl::cat(judging));
  cl::opt<bool> trace("trace", cl::desc("Print the value of every op too"),
                      cl::cat(judging));

  mlir::DialectRegistry registry;
  kvc::registerDialects(registry);
  kvc::registerPasses();
  auto files =
      kvc::parseCommandLine(argc, argv, registry, {&category, &judging},
                            /*plugins=*/!KVC_LLVM_INSIDE);
  if (!files)
    return 2;
  if (level != Level::None && interpreting)
    return kvc::fail("--interpret goes without --emit", 2);
  if (level == Level::None)
    for (const cl::Option &option :
         Options{shapes, models, chips, hostTriple, hostCPU, hostForms, remarks,
                 pruneNorms, listsAbove})
      if (option.getNumOccurrences())
        return kvc::fail("--" + option.ArgStr + " goes with --emit", 2);
  if (!interpreting)
    for (const cl::Option &option : Options{input, trace})
      if (option.getNumOccurrences())
        return kvc::fail("--" + option.ArgStr + " goes with --interpret", 2);
  if (level == Level::None && !interpreting) {
    if (params.getNumOccurrences())
      return kvc::fail("--param goes with --emit or --interpret", 2);
    return succeeded(kvc::checkPolicyFile(files->input))
               ? runPasses(argc, argv, *files, registry)
               : 1;
  }
  // A pass or an option of the pass driver would be taken and do nothing.
  if (!files->driverOption.empty())
    return kvc::fail("--" + files->driverOption + " goes without --" +
                         (interpreting ? "interpret" : "emit"),
                     2);
  for (const cl::Option &option :
       Options{level, hostTriple, hostCPU, hostForms, listsAbove, input})
    if (option.getNumOccurrences() > 1)
      return kvc::fail("--" + option.ArgStr + " is given once, got it " +
                           llvm::Twine(option.getNumOccurrences()) + " times",
                       2);
  std::vector<llvm::StringRef> names;
  for (const std::string &param : params) {
    llvm::StringRef name = llvm::StringRef(param).split('=').first;
    if (llvm::is_contained(names, name))
      return kvc::fail(
          "--param gives each parameter once, got '" + name + "' twice", 2);
    names.push_back(name);
  }
  if (interpreting) {
    if (input.empty())
      return kvc::fail("--interpret needs --input FILE", 2);
    kvc::InterpretOptions options;
    options.policy = files->input;
    options.output = files->output;
    options.input = input;
    options.params = {params.begin(), params.end()};
    options.trace = trace;
    return kvc::interpret(options, registry);
  }
  std::vector<std::string> distinctChips = distinct(chips);
  if (distinctChips.size() > 1 && llvm::is_contained(distinctChips, "none"))
    return kvc::fail("--chip=none goes without other chips, got " +
                         llvm::Twine(distinctChips.size() - 1),
                     2);
  kvc::EmitOptions options;
  options.level = level;
  options.input = files->input;
  options.output = files->output;
  options.shapes = {shapes.begin(), shapes.end()};
  options.models = {models.begin(), models.end()};
  options.chips = distinctChips;
  options.params = {params.begin(), params.end()};
  options.hostTriple = hostTriple;
  options.hostCPU = hostCPU;
  options.hostWarps = hostForms == HostForms::Both;
  options.remarks = remarks;
  options.pruneNorms = pruneNorms;
  if (listsAbove.getNumOccurrences())
    options.listsAbove = listsAbove;
  return kvc::emit(options, registry);
}
