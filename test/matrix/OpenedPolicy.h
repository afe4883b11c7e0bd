//===- OpenedPolicy.h - a policy's file, read -----------------------------===//

#ifndef KVC_TEST_MATRIX_OPENEDPOLICY_H
#define KVC_TEST_MATRIX_OPENEDPOLICY_H

#include "dialect/KVCDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <string>

namespace kvc::test {

/// A test of one policy.
class OpenedPolicy : public testing::Test {
public:
  explicit OpenedPolicy(std::string file) : file(std::move(file)) {}

protected:
  const std::string file;
  PolicyOp policy; // behind readPolicy()

  void readPolicy() {
    context.loadDialect<KVCDialect, mlir::arith::ArithDialect,
                        mlir::math::MathDialect>();
    source = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
    ASSERT_TRUE(source) << file;
    policy = *source->getOps<PolicyOp>().begin();
  }

private:
  // One file gives threads nothing to do.
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> source;
};

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_OPENEDPOLICY_H
