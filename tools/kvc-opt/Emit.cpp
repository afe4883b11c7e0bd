//===- Emit.cpp - kvc-opt as a compiler: --emit ---------------------------===//

#include "tools/kvc-opt/Emit.h"

#include "codegen/emit/EmitObject.h"
#include "codegen/emit/EmitPTX.h"
#include "codegen/Pipelines.h"
#include "passes/PolicyPipeline.h"
#include "tools/kvc-opt/Files.h"
#include "tools/kvc-opt/ReadPolicy.h"

#include "support/OutputFiles.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace kvc;

namespace {

int writeExpected(llvm::Expected<std::string> text, const std::string &path) {
  if (!text)
    return fail(llvm::toString(text.takeError()));
  return writeOutput(*text, path);
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << "\n";
  return text;
}

} // namespace

int kvc::emit(const EmitOptions &options, DialectRegistry &registry) {
  Level level = options.level;
  bool needsShape = level > Level::Fused;
  std::vector<Shape> shapes;
  auto add = [&](llvm::Expected<Shape> shape) -> int {
    if (!shape)
      return fail(llvm::toString(shape.takeError()));
    if (!llvm::is_contained(shapes, *shape))
      shapes.push_back(*shape);
    return 0;
  };
  for (const std::string &text : options.shapes)
    if (add(Shape::parse(text)))
      return 1;
  for (const std::string &dir : options.models)
    if (add(Shape::fromModel(dir)))
      return 1;
  if (needsShape && shapes.empty())
    return fail("--emit at this level needs --shape "
                "head_dim=N,group=N,dtype=T,cache=C,into=C or --model DIR");
  // At every level, also where no chip is asked for.
  for (const std::string &chip : options.chips)
    if (chip != "none")
      if (llvm::Error error = checkChip(chip))
        return fail(llvm::toString(std::move(error)));
  std::vector<std::string> chips = options.chips;
  bool artefact = level == Level::Object || level == Level::Library;
  if (chips.empty())
    chips = artefact ? std::vector<std::string>{"sm_80", "sm_90", "sm_90a"}
                     : std::vector<std::string>{"sm_90"};
  // "none": host kernels only.
  if (artefact && chips == std::vector<std::string>{"none"})
    chips.clear();
  if (level == Level::PTX && chips.size() > 1)
    return fail("--emit=ptx takes one --chip, got " + Twine(chips.size()));
  if (level == Level::Library && options.output == "-")
    return fail("--emit=library needs -o FILE");
  if (options.output != "-")
    if (std::string wrong = checkOutputs({options.output}, {options.input});
        !wrong.empty())
      return fail(wrong);

  MLIRContext context(registry);
  // Policies are small: starting threads costs more than they save.
  context.disableMultithreading();
  context.printOpOnDiagnostic(false);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    print(diagnostic, options.remarks);
  });
  auto file = readInput(options.input);
  if (!file)
    return 1;
  OwningOpRef<ModuleOp> module = readPolicy(std::move(file), context);
  if (!module)
    return 1;

  PassManager manager(&context);
  buildPolicyPipeline(manager, options.params, options.pruneNorms);
  if (level >= Level::Fused)
    buildFusePipeline(manager);
  if (failed(manager.run(*module)))
    return 1;
  if (needsShape) {
    PassManager build(&context);
    // Kernels are long: they are verified once, when they are built.
    build.enableVerifier(false);
    buildGPUPipeline(build, shapes, options.listsAbove);
    if (failed(build.run(*module)) || failed(verify(*module)))
      return 1;
  }

  ObjectOptions object;
  object.hostTriple = options.hostTriple;
  object.hostCPU = options.hostCPU;
  object.warps = options.hostWarps;
  object.chips = chips;
  object.library = level == Level::Library;
  switch (level) {
  case Level::None:
  case Level::Policy:
  case Level::Fused:
  case Level::GPU:
    return writeOutput(textOf(*module), options.output);
  case Level::PTX:
    return writeExpected(emitPTX(*module, chips.front()), options.output);
  case Level::Host:
    return writeExpected(emitHostIR(*module, object), options.output);
  case Level::Manifest:
    return writeOutput(manifestOf(*module) + "\n", options.output);
  case Level::Header:
    return writeOutput(emitHeader(*module), options.output);
  case Level::Object:
    return writeExpected(emitObject(*module, object), options.output);
  case Level::Library:
    break;
  }
  llvm::Expected<std::string> text = emitObject(*module, object);
  if (!text)
    return fail(llvm::toString(text.takeError()));
  return writeExpected(linkLibrary(*text), options.output);
}
