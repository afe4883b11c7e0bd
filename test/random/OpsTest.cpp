//===- OpsTest.cpp - every op of arith and math ---------------------------===//
//
// Each op that upstream registers is put into a policy, on every type that it
// takes: it keeps what the reference keeps and its PTX needs no other file, or
// it is refused by its name.
//
//===----------------------------------------------------------------------===//

#include "test/random/Children.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include <unistd.h>

using namespace kvc::random;
using namespace mlir;

namespace {

/// A value per token of each type, with numbers on either side of 0.
constexpr const char *leaves = R"(
  %k = kvc.norm l2 key : tensor<?x?xf32>
  %v = kvc.norm l1 value : tensor<?x?xf32>
  %f0 = arith.subf %k, %v : tensor<?x?xf32>
  %f1 = arith.divf %k, %v : tensor<?x?xf32>
  %f2 = kvc.fill 0.375 : tensor<?x?xf32>
  %p = kvc.position : tensor<?x?xi32>
  %twenty = arith.constant 20 : i32
  %t = kvc.broadcast %twenty : i32 to tensor<?x?xi32>
  %i0 = arith.subi %p, %t : tensor<?x?xi32>
  %i1 = kvc.position from_end : tensor<?x?xi32>
  %i2 = arith.muli %i0, %i1 : tensor<?x?xi32>
  %b0 = arith.cmpi slt, %i0, %i1 : tensor<?x?xi32>
  %b1 = arith.cmpf ogt, %f0, %f2 : tensor<?x?xf32>
  %b2 = arith.xori %b0, %b1 : tensor<?x?xi1>
)";

const char *nameOf(Type type) {
  return type.isF32() ? "f" : type.isInteger(32) ? "i" : "b";
}

std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << "tensor<?x?x" << type << ">";
  return text;
}

/// One op in generic form, `%x = "arith.addf"(%f0, %f1) ...`, and what makes a
/// score of its result.
std::string policyOf(Operation *op) {
  std::string text = "kvc.policy @one_op {";
  llvm::raw_string_ostream out(text);
  out << leaves << "  %x = \"" << op->getName() << "\"(";
  llvm::StringMap<int> used;
  llvm::interleaveComma(op->getOperandTypes(), out, [&](Type type) {
    out << "%" << nameOf(type) << used[nameOf(type)]++;
  });
  out << ")";
  if (!op->getAttrs().empty()) {
    out << " <{";
    llvm::interleaveComma(op->getAttrs(), out, [&](NamedAttribute attr) {
      out << attr.getName().getValue() << " = " << attr.getValue();
    });
    out << "}>";
  }
  out << " : (";
  llvm::interleaveComma(op->getOperandTypes(), out,
                        [&](Type type) { out << textOf(type); });
  Type result = op->getResult(0).getType();
  std::string wide = textOf(Float32Type::get(op->getContext()));
  out << ") -> " << textOf(result) << "\n";
  if (result.isInteger(1))
    out << "  %s = arith.uitofp %x : " << textOf(result) << " to " << wide;
  else if (result.isInteger(32))
    out << "  %s = arith.sitofp %x : " << textOf(result) << " to " << wide;
  else
    out << "  %s = arith.addf %x, %f2 : " << wide;
  out << R"(
  %n = kvc.allocate uniform : tensor<?xi32>
  %m = kvc.topk %s, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %m : tensor<?x?xi1>
}
)";
  return text;
}

class OpsTest : public testing::Test {
protected:
  OpsTest() {
    context.loadDialect<arith::ArithDialect, math::MathDialect>();
    Builder b(&context);
    types = {b.getF32Type(), b.getI32Type(), b.getI1Type()};
  }

  MLIRContext context;
  SmallVector<Type> types;

  /// Attributes that an op cannot be without.
  SmallVector<SmallVector<NamedAttribute>> attributesOf(StringRef name) {
    Builder b(&context);
    SmallVector<SmallVector<NamedAttribute>> choices;
    auto predicates = [&](int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        choices.push_back(
            {b.getNamedAttr("predicate", b.getI64IntegerAttr(i))});
    };
    if (name == "arith.cmpf")
      predicates(16);
    else if (name == "arith.cmpi")
      predicates(10);
    else
      choices.push_back({});
    return choices;
  }

  /// Calls `body` with each form of the op that its verifier takes.
  void forForms(StringRef name, llvm::function_ref<void(Operation *)> body) {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
    Block block;
    Location loc = UnknownLoc::get(&context);
    for (int64_t arity = 0; arity <= 3; ++arity)
      for (int64_t code = 0; code < 27; ++code) {
        SmallVector<Value> operands;
        int64_t rest = code;
        for (int64_t i = 0; i < arity; ++i, rest /= 3)
          operands.push_back(block.addArgument(types[rest % 3], loc));
        if (rest)
          continue; // the digits in front of the operands have been tried
        for (Type result : types)
          for (auto &attributes : attributesOf(name)) {
            OperationState state(loc, name);
            state.addOperands(operands);
            state.addTypes(result);
            state.addAttributes(attributes);
            Operation *op = Operation::create(state);
            if (succeeded(verify(op)))
              body(op);
            op->destroy();
          }
      }
  }
};

TEST_F(OpsTest, EveryOpIsRightOrRefusedByName) {
  TrialOptions options;
  // Another run of this test may be under way.
  options.folder = testing::TempDir() + "kvc-ops-" + std::to_string(getpid());
  std::filesystem::create_directories(options.folder);
  Children host(options, 1, 60);
  options.target = KVC_PTX;
  Children ptx(options, 1, 60);
  Case c = Case::parse("kv=2,group=2,head_dim=16,dtype=f32,seq=48:17");
  std::map<std::string, int> seen;
  int forms = 0;
  for (const char *dialect : {"arith", "math"})
    for (RegisteredOperationName info :
         context.getRegisteredOperationsByDialect(dialect)) {
      std::string name = info.getStringRef().str();
      forForms(name, [&](Operation *op) {
        std::string policy = policyOf(op);
        // The host kernels and the PTX take turns.
        Verdict verdict = (++forms % 2 ? host : ptx).run(policy, c);
        ++seen[verdict.kind];
        if (verdict.kind == "refused")
          EXPECT_NE(verdict.message.find(name), std::string::npos)
              << verdict.message << policy;
        else
          EXPECT_EQ(verdict.kind, "ok") << verdict.message << policy;
      });
    }
  // What upstream has today: fewer would mean that the walk has stopped.
  EXPECT_GE(seen["ok"], 75);
  EXPECT_GE(seen["refused"], 20);
  std::filesystem::remove_all(options.folder);
}

} // namespace
