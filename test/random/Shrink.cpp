//===- Shrink.cpp - a small policy and case with the same fault -----------===//

#include "test/random/Shrink.h"

#include "dialect/KVCDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace kvc;
using namespace kvc::random;

namespace {

class Shrinker {
public:
  Shrinker(Failing failing, const std::function<bool(const Failing &)> &fails,
           size_t most)
      : failing(std::move(failing)), fails(fails), left(most) {
    context.disableMultithreading();
    context.loadDialect<KVCDialect, arith::ArithDialect, math::MathDialect>();
    context.getDiagEngine().registerHandler([](Diagnostic &) {});
  }

  Failing run() {
    // Small cases first: every later question is then a quick one.
    bool again = true;
    while (std::exchange(again, false) && left) {
      again |= shrinkCase();
      again |= shrinkPolicy();
    }
    return failing;
  }

private:
  Failing failing;
  const std::function<bool(const Failing &)> &fails;
  size_t left;
  MLIRContext context{MLIRContext::Threading::DISABLED};

  bool accept(Failing smaller) {
    if (left == 0 || (smaller.policy == failing.policy &&
                      smaller.c.text() == failing.c.text()))
      return false;
    --left;
    if (!fails(smaller))
      return false;
    failing = std::move(smaller);
    return true;
  }

  //===--------------------------------------------------------------------===//
  // The case
  //===--------------------------------------------------------------------===//

  bool accept(llvm::function_ref<void(Case &)> change) {
    Failing smaller = failing;
    change(smaller.c);
    return accept(std::move(smaller));
  }

  /// The smallest of a few values that still fails.
  bool lower(llvm::function_ref<int64_t &(Case &)> field,
             std::initializer_list<int64_t> values) {
    for (int64_t value : values) {
      if (value >= field(failing.c))
        break;
      if (accept([&](Case &c) { field(c) = value; }))
        return true;
    }
    return false;
  }

  bool shrinkCase() {
    bool any = false;
    for (size_t s = failing.c.sequences.size(); s-- > 0;)
      if (failing.c.sequences.size() > 1)
        any |= accept(
            [&](Case &c) { c.sequences.erase(c.sequences.begin() + long(s)); });
    any |= accept([](Case &c) { c.special = test::Special::None; });
    any |= accept([](Case &c) { c.keys = test::Keys::Random; });
    any |= accept([](Case &c) { c.shape.dtype = KVC_F32; });
    any |= accept([](Case &c) { c.cache = KVC_DENSE; });
    any |= accept([](Case &c) { c.into = KVC_DENSE; });
    any |= lower([](Case &c) -> int64_t & { return c.layers; }, {1, 2});
    any |= lower([](Case &c) -> int64_t & { return c.shape.kvHeads; }, {1, 2});
    any |= lower([](Case &c) -> int64_t & { return c.shape.group; }, {1, 2, 3});
    any |= lower([](Case &c) -> int64_t & { return c.shape.headDim; },
                 {1, 2, 4, 8, 16, 32, 64});
    for (size_t s = 0; s < failing.c.sequences.size(); ++s) {
      auto tokens = [s](Case &c) -> int64_t & { return c.sequences[s].first; };
      auto budget = [s](Case &c) -> int64_t & { return c.sequences[s].second; };
      any |= lower(tokens, {2, 4, 8, 16, 33, 40, 65, 100, 129});
      any |= lower(budget, {1, 2, 4, 8, 16, 32, 64});
    }
    return any;
  }

  //===--------------------------------------------------------------------===//
  // The policy
  //===--------------------------------------------------------------------===//

  /// Changes a copy of the policy; asks if it is still valid and fails.
  bool acceptPolicy(llvm::function_ref<bool(PolicyOp)> change) {
    auto module = parseSourceString<ModuleOp>(failing.policy, &context);
    if (!module)
      return false;
    auto policy = *module->getOps<PolicyOp>().begin();
    if (!change(policy))
      return false;
    dropDead(policy);
    if (failed(verify(*module)))
      return false;
    Failing smaller = failing;
    smaller.policy.clear();
    llvm::raw_string_ostream stream(smaller.policy);
    policy->print(stream);
    stream << "\n";
    return accept(std::move(smaller));
  }

  static void dropDead(PolicyOp policy) {
    Operation *op = policy.getBody().front().getTerminator()->getPrevNode();
    while (op) {
      Operation *before = op->getPrevNode();
      if (op->use_empty())
        op->erase();
      op = before;
    }
  }

  static Operation *opAt(PolicyOp policy, size_t index) {
    return &*std::next(policy.getBody().front().begin(), long(index));
  }

  size_t opCount() {
    auto module = parseSourceString<ModuleOp>(failing.policy, &context);
    return module ? llvm::range_size(
                        (*module->getOps<PolicyOp>().begin()).getBody().front())
                  : 0;
  }

  bool shrinkPolicy() {
    bool any = false;
    any |= acceptPolicy([](PolicyOp policy) {
      auto keep = cast<KeepOp>(policy.getBody().front().back());
      keep.getProtectLastMutable().clear();
      return true;
    });
    any |= acceptPolicy([](PolicyOp policy) {
      auto keep = cast<KeepOp>(policy.getBody().front().back());
      keep.getDestinationMutable().clear();
      keep.getWeightMutable().clear();
      keep.setSharePositions(false);
      return true;
    });
    // From the end: what is left out there takes most with it.
    for (size_t at = opCount(); at-- > 0 && left;)
      while (at < opCount() && left && shrinkOp(at))
        any = true;
    return any;
  }

  bool shrinkOp(size_t at) {
    // In the place of its result: an operand, or an earlier value.
    for (size_t i = 0; i < 4; ++i)
      if (acceptPolicy([&](PolicyOp policy) {
            Operation *op = opAt(policy, at);
            if (op->getNumResults() != 1 || i >= op->getNumOperands() ||
                op->getOperand(unsigned(i)).getType() !=
                    op->getResult(0).getType())
              return false;
            op->getResult(0).replaceAllUsesWith(op->getOperand(unsigned(i)));
            return true;
          }))
        return true;
    if (acceptPolicy([&](PolicyOp policy) {
          Operation *op = opAt(policy, at);
          if (op->getNumResults() != 1 || op->getNumOperands() == 0)
            return false;
          for (Operation &before : policy.getBody().front()) {
            if (&before == op)
              return false;
            if (before.getNumResults() == 1 &&
                before.getResult(0).getType() == op->getResult(0).getType()) {
              op->getResult(0).replaceAllUsesWith(before.getResult(0));
              return true;
            }
          }
          return false;
        }))
      return true;
    if (acceptPolicy([&](PolicyOp policy) {
          Value simple = simplest(opAt(policy, at));
          if (!simple)
            return false;
          opAt(policy, at + 1)->getResult(0).replaceAllUsesWith(simple);
          return true;
        }))
      return true;
    // Smaller numbers; plain constants in the place of parameters.
    for (int64_t number : {0, 1, 2, 5})
      if (acceptPolicy([&](PolicyOp policy) {
            return setNumber(opAt(policy, at), number);
          }))
        return true;
    return false;
  }

  /// A short op of the result's type in front of `op`; null if there is none.
  static Value simplest(Operation *op) {
    if (op->getNumResults() != 1 || op->getNumOperands() == 0)
      return {};
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type)
      return {};
    OpBuilder builder(op);
    if (type.getRank() == 2 && type.getElementType().isF32())
      return NormOp::create(builder, op->getLoc(), type, NormKind::L2,
                            CacheSide::Key);
    if (type.getRank() == 1 && type.getElementType().isInteger(32))
      return AllocateOp::create(builder, op->getLoc(), type);
    return {};
  }

  static bool setNumber(Operation *op, int64_t number) {
    TypedAttr value;
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      value = constant.getValue();
    else if (auto param = dyn_cast<ParamOp>(op))
      value = param.getValue();
    auto integer = dyn_cast_or_null<IntegerAttr>(value);
    if (!integer || integer.getType().isInteger(1) ||
        (integer.getInt() <= number && isa<arith::ConstantOp>(op)))
      return false;
    OpBuilder builder(op);
    number = std::min(number, integer.getInt());
    Value smaller = arith::ConstantOp::create(
        builder, op->getLoc(), IntegerAttr::get(integer.getType(), number));
    op->getResult(0).replaceAllUsesWith(smaller);
    return true;
  }
};

} // namespace

Failing kvc::random::shrink(Failing failing,
                            const std::function<bool(const Failing &)> &fails,
                            size_t most) {
  return Shrinker(std::move(failing), fails, most).run();
}
