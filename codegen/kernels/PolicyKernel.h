//===- PolicyKernel.h - a kernel that runs a part of a policy -------------===//
//
// What the builders share whose blocks belong to a sequence, or to a KV head of
// one: the kernel under construction and the points at which its body is asked
// for values. A builder derives from it, says how it is launched (a function of
// the kernel alone, before there is anything to launch) and what a block does.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_KERNELS_POLICYKERNEL_H
#define KVC_CODEGEN_KERNELS_POLICYKERNEL_H

#include "codegen/kernels/Kernels.h"

namespace kvc {

class PolicyKernel {
protected:
  PolicyKernel(KernelOp kernel, const KernelSite &site, const LaunchSpec &spec)
      : kernel(kernel), site(site),
        yield(cast<YieldOp>(kernel.getBody().front().back())),
        k(site.builder, site.name, site.shape, spec, site.scratch) {}

  /// The block's sequence: grid axis z.
  void openBlock() {
    s = openSequence(k, k.block(mlir::gpu::Dimension::z), yield);
    clearBuffers(k, kernel, s.sequence);
  }
  /// And its KV head: grid axis y.
  void openHeadBlock() {
    head = k.block(mlir::gpu::Dimension::y);
    s = openHead(k, k.block(mlir::gpu::Dimension::z), head, yield);
    clearBuffers(k, kernel, s.sequence);
  }

  /// An operand of the kernel at a point; nothing for any other value.
  std::optional<Expr> input(mlir::Value value, const Point &point) {
    return readInput(k, s, site, value, point);
  }
  /// A value that needs nothing but operands, at a token of a KV head.
  Expr valueAt(mlir::Value value, Expr kvHead, Expr token) {
    PointEval eval(
        k, s, [this](mlir::Value v, const Point &p) { return input(v, p); },
        Point{kvHead, -1, {}, token});
    return eval(value);
  }
  /// Each result of the kernel: what is yielded, and the argument it goes to.
  auto results() { return llvm::zip(yield.getValues(), outputBuffers(kernel)); }

  KernelOp kernel;
  const KernelSite &site;
  YieldOp yield;
  KernelBuilder k;
  SequenceScalars s;
  Expr head; // not valid where the block is a whole sequence's
};

} // namespace kvc

#endif // KVC_CODEGEN_KERNELS_POLICYKERNEL_H
