//===- ReadPolicy.cpp - the text of a policy, within limits ---------------===//

#include "tools/kvc-opt/ReadPolicy.h"

#include "tools/kvc-opt/Files.h"

#include "dialect/KVCDialect.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace {

/// Looks for the first place at which a text goes beyond the limits. Texts in
/// quotes and comments do not count.
class Scan {
public:
  explicit Scan(StringRef text) : text(text) {}

  /// The rule that is broken at `at`; empty where none is.
  std::string run() {
    std::string rule; // that a word or number breaks
    for (; at < text.size(); ++at) {
      char c = text[at];
      StringRef rest = text.drop_front(at);
      if (alias)
        ++*alias;
      if (c == '"')
        skipQuoted();
      else if (rest.starts_with("//"))
        at += std::min(rest.find('\n'), rest.size()) - 1;
      else if (rest.starts_with("->") || rest.starts_with(">="))
        ++at;
      else if (c == '#' && rest.size() > 1 && llvm::isDigit(rest[1]))
        rule = readResult(rest.drop_front());
      else if (c == '!' || c == '#')
        readAlias(rest);
      else if (isOfWord(c))
        rule = readWord(rest);
      else if (StringRef("([{<").contains(c))
        ++depth;
      else if (StringRef(")]}>").contains(c))
        depth -= depth != 0;
      else if (c == '\n' && depth == aliasDepth)
        alias = nullptr;
      // A minus in front of a minus: an affine expression is read so.
      if (c == '-' && !rest.starts_with("->"))
        ++signs;
      else if (!isspace(static_cast<unsigned char>(c)))
        signs = 0;
      if (!rule.empty())
        return rule;
      if (depth > kvc::mostNesting || signs > kvc::mostNesting)
        return llvm::formatv("brackets must be nested at most {0} deep",
                             kvc::mostNesting);
      if (alias && *alias > kvc::mostAlias)
        return llvm::formatv("an alias must stand for at most {0} characters",
                             kvc::mostAlias);
    }
    return "";
  }
  unsigned line() const {
    return unsigned(text.take_front(at).count('\n')) + 1;
  }
  unsigned column() const {
    return unsigned(at - (text.take_front(at).rfind('\n') + 1)) + 1;
  }

private:
  const StringRef text;
  size_t at = 0, depth = 0, signs = 0;
  // What aliases of types and attributes stand for; `alias` is being defined.
  llvm::StringMap<size_t> lengths;
  size_t *alias = nullptr, aliasDepth = 0;

  static bool isOfWord(char c) {
    return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$';
  }
  /// A name or a number: the rule that it breaks, or nothing.
  std::string readWord(StringRef rest) {
    size_t length = rest.take_while(isOfWord).size();
    if (length > kvc::mostWord)
      return llvm::formatv(
          "a name or number must have at most {0} characters, got {1}",
          kvc::mostWord, length);
    if (alias)
      *alias += length - 1;
    at += length - 1;
    return "";
  }
  /// The same of a result's number, behind its "#".
  std::string readResult(StringRef rest) {
    StringRef number = rest.take_while(llvm::isDigit);
    size_t result = 0;
    if (number.getAsInteger(10, result) || result > kvc::mostResult)
      return llvm::formatv("the number of a result must be at most {0}, got "
                           "{1}",
                           kvc::mostResult, number.take_front(40));
    at += number.size();
    return "";
  }
  void skipQuoted() {
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      at += text[at] == '\\';
  }
  /// "!name" or "#name", or with a "=" its definition.
  void readAlias(StringRef rest) {
    StringRef name = rest.take_front(
        1 + rest.drop_front()
                .take_while([](char c) {
                  return llvm::isAlnum(c) || StringRef("_$.-").contains(c);
                })
                .size());
    StringRef behind = rest.drop_front(name.size()).ltrim(" \t");
    if (behind.starts_with("=") && !behind.starts_with("==")) {
      alias = &lengths[name];
      *alias = 0;
      aliasDepth = depth;
    } else if (alias) {
      *alias += lengths.lookup(name);
    }
    at += name.size() - 1;
  }
};

} // namespace

LogicalResult kvc::checkPolicyText(llvm::MemoryBufferRef text,
                                   MLIRContext &context) {
  StringRef all = text.getBuffer(), name = text.getBufferIdentifier();
  if (all.size() > mostPolicyBytes)
    return emitError(FileLineColLoc::get(&context, name, 1, 1))
           << "a policy file must have at most " << mostPolicyBytes
           << " bytes, got " << all.size();
  Scan scan(all);
  std::string rule = scan.run();
  if (rule.empty())
    return success();
  return emitError(
             FileLineColLoc::get(&context, name, scan.line(), scan.column()))
         << rule;
}

LogicalResult kvc::checkPolicyFile(const std::string &path) {
  if (path == "-")
    return success();
  auto file = readLimited(path);
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
