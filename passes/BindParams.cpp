//===- BindParams.cpp - kvc-bind-params -----------------------------------===//

#include "passes/Passes.h"

#include "llvm/ADT/StringMap.h"

#include <charconv>

namespace kvc {
#define GEN_PASS_DEF_BINDPARAMS
#include "passes/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// Parses `text` as a number of the default's type; null if it is none.
TypedAttr parseValue(StringRef text, TypedAttr like) {
  if (auto integer = dyn_cast<IntegerAttr>(like)) {
    int64_t value;
    if (text.getAsInteger(10, value) || value < 0)
      return {};
    return IntegerAttr::get(integer.getType(), value);
  }
  if (isa<StringAttr>(like))
    return parseFraction(text) ? StringAttr::get(text, like.getType())
                               : TypedAttr();
  double value;
  auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (error != std::errc() || end != text.end())
    return {};
  auto number = FloatAttr::get(like.getType(), value);
  // Too small for the type is another number, as too large is.
  bool lost = value != 0 && number.getValue().isZero();
  return number.getValue().isFinite() && !lost ? number : FloatAttr();
}

std::string ruleOf(Type type) {
  if (isa<FractionType>(type))
    return "a decimal of at most 4 places, 0 or more and below 1024";
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return (isa<FloatType>(type) ? "a finite" : "a non-negative") +
         (" number of type '" + name + "'");
}

struct BindParamsPass : public kvc::impl::BindParamsBase<BindParamsPass> {
  using BindParamsBase::BindParamsBase;

  void runOnOperation() override {
    PolicyOp policy = getOperation();
    llvm::StringMap<StringRef> given;
    for (const std::string &value : values) {
      auto [name, text] = StringRef(value).split('=');
      if (text.empty()) {
        policy.emitError("a parameter is given as NAME=VALUE, got '")
            << value << "'";
        return signalPassFailure();
      }
      given[name] = text;
    }

    llvm::StringMap<bool> known;
    SmallVector<NamedAttribute> bound;
    WalkResult result = policy.walk([&](ParamOp param) {
      if (!known.try_emplace(param.getName(), true).second) {
        param.emitError("parameter '")
            << param.getName() << "' is read twice; read it once and use the "
            << "result";
        return WalkResult::interrupt();
      }
      TypedAttr value = param.getValue();
      if (auto it = given.find(param.getName()); it != given.end()) {
        value = parseValue(it->second, value);
        if (!value) {
          param.emitError("parameter '")
              << param.getName() << "' must be " << ruleOf(param.getType())
              << ", got '" << it->second << "'";
          return WalkResult::interrupt();
        }
      }
      bound.push_back({param.getNameAttr(), value});
      OpBuilder builder(param);
      Operation *constant;
      if (auto text = dyn_cast<StringAttr>(value))
        constant = FractionOp::create(builder, param.getLoc(), text.getType(),
                                      text.getValue());
      else
        constant = arith::ConstantOp::create(builder, param.getLoc(), value);
      param.replaceAllUsesWith(constant);
      param.erase();
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (auto &entry : given)
      if (!known.count(entry.getKey())) {
        policy.emitError("policy '")
            << policy.getSymName() << "' has no parameter '" << entry.getKey()
            << "'";
        return signalPassFailure();
      }
    // For the manifest: what the policy was compiled with.
    if (!bound.empty())
      policy.setParamsAttr(DictionaryAttr::get(&getContext(), bound));
  }
};

} // namespace
