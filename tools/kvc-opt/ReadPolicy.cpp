//===- ReadPolicy.cpp - the text of a policy, within limits ---------------===//

#include "tools/kvc-opt/ReadPolicy.h"

#include "dialect/KVCDialect.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// The first place that is nested too deep, or the end. Text and comments do
/// not count; a minus in front of a minus does, as an affine expression is read
/// so.
static size_t findTooDeep(StringRef text) {
  size_t depth = 0, signs = 0, i = 0;
  for (; i < text.size() && depth <= kvc::mostNesting; ++i) {
    char c = text[i];
    StringRef rest = text.drop_front(i);
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
    } else if (rest.starts_with("//")) {
      i += rest.find('\n') == StringRef::npos ? rest.size() : rest.find('\n');
    } else if (rest.starts_with("->") || rest.starts_with(">=")) {
      ++i;
    } else if (c == '-') {
      if (++signs > kvc::mostNesting)
        break;
      continue;
    } else if (StringRef("([{<").contains(c)) {
      ++depth;
    } else if (StringRef(")]}>").contains(c) && depth) {
      --depth;
    }
    if (!isspace(static_cast<unsigned char>(c)))
      signs = 0;
  }
  return std::min(i, text.size());
}

LogicalResult kvc::checkPolicyText(llvm::MemoryBufferRef text,
                                   MLIRContext &context) {
  StringRef all = text.getBuffer(), name = text.getBufferIdentifier();
  if (all.size() > mostPolicyBytes)
    return emitError(FileLineColLoc::get(&context, name, 1, 1))
           << "a policy file must have at most " << mostPolicyBytes
           << " bytes, got " << all.size();
  size_t at = findTooDeep(all);
  if (at == all.size())
    return success();
  StringRef before = all.take_front(at);
  unsigned line = unsigned(before.count('\n')) + 1;
  auto column = unsigned(at - (before.rfind('\n') + 1)) + 1;
  return emitError(FileLineColLoc::get(&context, name, line, column))
         << "brackets must be nested at most " << mostNesting << " deep";
}

LogicalResult kvc::checkPolicyFile(const std::string &path) {
  if (path == "-")
    return success();
  auto file = llvm::MemoryBuffer::getFile(path);
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    auto where = cast<FileLineColLoc>(diagnostic.getLocation());
    llvm::errs() << where.getFilename().getValue() << ":" << where.getLine()
                 << ":" << where.getColumn() << ": error: " << diagnostic.str()
                 << "\n";
  });
  return success(!file || succeeded(checkPolicyText(**file, context)));
}

OwningOpRef<ModuleOp> kvc::readPolicy(std::unique_ptr<llvm::MemoryBuffer> text,
                                      MLIRContext &context) {
  std::string name = text->getBufferIdentifier().str();
  if (failed(checkPolicyText(*text, context)))
    return {};
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(text), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return {};
  auto policies = module->getOps<PolicyOp>();
  int64_t count = std::distance(policies.begin(), policies.end());
  auto refuse = [&] { return emitError(UnknownLoc::get(&context)) << name; };
  if (count != 1) {
    refuse() << ": must have one kvc.policy, got " << count;
    return {};
  }
  size_t ops = 0;
  module->walk([&](Operation *) { ++ops; });
  if (ops > mostOps) {
    refuse() << ": must have at most " << mostOps << " ops, got " << ops;
    return {};
  }
  return module;
}
