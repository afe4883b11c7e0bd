//===- Interpret.cpp - kvc-opt as a judge: --interpret --------------------===//

#include "tools/kvc-opt/Interpret.h"

#include "dialect/reference/Interpreter.h"
#include "dialect/reference/LayerText.h"
#include "passes/Passes.h"
#include "passes/PolicyPipeline.h"
#include "tools/kvc-opt/Files.h"
#include "tools/kvc-opt/ReadPolicy.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace kvc;

namespace {

/// What ops are called in the text of a policy: "%mean = kvc.reduce".
class Names {
public:
  Names(StringRef text, PolicyOp policy) {
    SmallVector<StringRef> lines;
    text.split(lines, '\n');
    for (Operation &op : policy.getBody().front())
      if (auto where = dyn_cast<FileLineColLoc>(op.getLoc());
          where && where.getLine() && where.getLine() <= lines.size())
        names[op.getLoc()] =
            (Twine(nameIn(lines[where.getLine() - 1], where.getColumn() - 1)) +
             " = " + op.getName().getStringRef())
                .str();
  }
  /// Parameters have become constants, but stay where they were.
  std::string of(Operation *op) const {
    auto it = names.find(op->getLoc());
    return it != names.end() ? it->second : op->getName().getStringRef().str();
  }

private:
  llvm::DenseMap<Location, std::string> names;

  /// The name whose definition is at `column`, or ends in front of it.
  static StringRef nameIn(StringRef line, size_t column) {
    StringRef before = line.take_front(column).rtrim();
    if (before.consume_back("="))
      return before.rtrim().substr(before.rfind('%'));
    return line.drop_front(std::min(column, line.size()))
        .take_until([](char c) { return isspace(uint8_t(c)) || c == '='; });
  }
};

class Printer {
public:
  explicit Printer(const Names &names) : names(names) {}

  void value(Operation *op, const reference::Tensor &value) {
    stream << names.of(op) << ":";
    if (auto fraction = dyn_cast<FractionOp>(op)) {
      stream << " " << fraction.getText() << "\n";
      return;
    }
    for (auto [i, axis] : llvm::enumerate(value.axes))
      stream << (i ? ", " : " ") << stringifyAxis(axis) << " "
             << value.shape[i];
    if (op->getResult(0).getType().isIntOrIndex()) { // exact
      stream << " " << value.whole << "\n";
      return;
    }
    if (!value.axes.empty())
      stream << "\n";
    tensor(value);
  }
  /// "kept 0: 1 2", a line for each head.
  template <typename Rows> void rows(const Twine &what, const Rows &rows) {
    for (auto [head, row] : llvm::enumerate(rows)) {
      stream << what << " " << head << ":";
      for (auto x : row)
        number(double(x));
      stream << "\n";
    }
  }
  const std::string &text() const { return result; }

private:
  const Names &names;
  std::string result;
  llvm::raw_string_ostream stream{result};

  void number(double x) {
    if (std::isnan(x))
      stream << " nan"; // without the sign that it may have
    else
      stream << llvm::format(" %.9g", x == 0 ? 0 : x);
  }
  /// A line for each row of the last dimension, behind the other indices.
  void tensor(const reference::Tensor &value) {
    size_t width = value.shape.empty() ? 1 : value.shape.back();
    for (size_t at = 0; at < value.data.size(); at += width) {
      size_t row = at / width;
      SmallVector<std::string> index;
      for (size_t i = value.shape.size(); i-- > 1;) {
        index.push_back(std::to_string(row % value.shape[i - 1]));
        row /= value.shape[i - 1];
      }
      if (!value.shape.empty())
        stream << " ";
      for (const std::string &i : llvm::reverse(index))
        stream << " " << i;
      if (!index.empty())
        stream << ":";
      for (size_t i = at; i < at + width; ++i)
        number(value.data[i]);
      stream << "\n";
    }
  }
};

/// Binds the parameters, and asks of the policy what the compiler asks of it:
/// the reference takes for granted that it may run. What nobody uses goes, as
/// it does there.
LogicalResult prepare(ModuleOp module, const std::vector<std::string> &params) {
  BindParamsOptions bind;
  bind.values.assign(params.begin(), params.end());
  PassManager binder(module.getContext());
  binder.nest<PolicyOp>().addPass(createBindParams(bind));
  if (failed(binder.run(module)))
    return failure();
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager checker(module.getContext());
  buildPolicyPipeline(checker, {});
  checker.nest<PolicyOp>().addPass(createInferAxes());
  if (failed(checker.run(*copy)))
    return failure();
  reference::eraseUnused(*module.getOps<PolicyOp>().begin());
  return success();
}

std::optional<reference::Layer> readLayer(const std::string &path) {
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path)) {
    fail("cannot read " + path + ": not a regular file");
    return std::nullopt;
  }
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    fail("cannot read " + path + ": " + file.getError().message());
    return std::nullopt;
  }
  auto layer = reference::parseLayer((*file)->getBuffer());
  if (!layer) {
    fail(path + ": " + llvm::toString(layer.takeError()));
    return std::nullopt;
  }
  return *layer;
}

} // namespace

int kvc::interpret(const InterpretOptions &options, DialectRegistry &registry) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  ScopedDiagnosticHandler handler(
      &context, [](Diagnostic &diagnostic) { print(diagnostic, false); });
  auto file = readInput(options.policy);
  if (!file)
    return 1;
  std::string text = file->getBuffer().str();
  OwningOpRef<ModuleOp> module = readPolicy(std::move(file), context);
  if (!module)
    return 1;
  PolicyOp policy = *module->getOps<PolicyOp>().begin();
  if (!isa<KeepOp>(policy.getBody().front().back()))
    return fail("--interpret runs a policy that ends in kvc.keep, got " +
                policy.getBody().front().back().getName().getStringRef());
  Names names(text, policy);
  if (failed(prepare(*module, options.params)))
    return 1;
  std::optional<reference::Layer> layer = readLayer(options.input);
  if (!layer)
    return 1;
  if (llvm::Error error = reference::checkInputs(policy, *layer))
    return fail(options.input + ": " + llvm::toString(std::move(error)));

  Printer printer(names);
  int64_t queries = 0; // how many rows of q were read, at most
  auto watch = [&](Operation *op, ArrayRef<const reference::Tensor *> operands,
                   reference::Tensor &value) {
    if (isa<AttentionOp>(op))
      queries = std::max(queries, operands[0]->whole);
    if (options.trace)
      printer.value(op, value);
  };
  auto kept = reference::interpret(policy, *layer, watch);
  if (failed(kept))
    return 1;
  queries = std::min(queries, layer->tokens);
  if (queries > layer->queries)
    return fail(options.input + ": the policy reads " + Twine(queries) +
                " queries, got " + Twine(layer->queries));
  printer.rows("scores", kept->scores);
  printer.rows("kept", kept->tokens);
  for (const reference::Kept::Carried &carried : kept->carried)
    printer.rows("carried " + carried.name, carried.numbers);
  if (kept->merge) {
    const std::vector<double> &to = kept->merge->destination.data;
    std::vector<std::vector<double>> rows;
    size_t past = to.size() / size_t(layer->kvHeads);
    for (size_t at = 0; at < to.size(); at += past)
      rows.emplace_back(to.begin() + at, to.begin() + at + past);
    printer.rows("destination", rows);
  }
  if (!kept->members.empty()) {
    std::vector<std::vector<int64_t>> rows, positions;
    for (const auto &head : kept->members) {
      rows.emplace_back();
      positions.emplace_back();
      for (const reference::Kept::Member &member : head) {
        rows.back().push_back(member.row);
        positions.back().push_back(member.position);
      }
    }
    printer.rows("members", positions);
    printer.rows("of rows", rows);
  }
  return writeOutput(printer.text(), options.output);
}
