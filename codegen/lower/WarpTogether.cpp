//===- WarpTogether.cpp - what the lanes of a warp do together -------------===//

#include "codegen/lower/WarpKernel.h"

#include "kvc/simt.h"

#include "mlir/IR/Matchers.h"

#include <cstddef>

using namespace mlir;
using namespace kvc;

LogicalResult WarpKernel::shuffle(gpu::ShuffleOp op) {
  APInt offset;
  bool exchanges = op.getMode() == gpu::ShuffleMode::XOR;
  if ((!exchanges && op.getMode() != gpu::ShuffleMode::UP) ||
      !matchPattern(op.getOffset(), m_ConstantInt(&offset)) ||
      !op.getValid().use_empty())
    return fail(op, "must be xor or up, by a constant");
  if (isUniform(op.getValue())) {
    defineScalar(op.getShuffleResult(), base(op.getValue()));
    return success();
  }
  Value lanes = vector(op.getValue());
  SmallVector<int64_t> from;
  int64_t distance = offset.getSExtValue();
  for (int64_t lane = 0; lane < warpSize; ++lane)
    from.push_back(exchanges          ? (lane ^ distance) % warpSize
                   : lane >= distance ? lane - distance
                                      : lane);
  defineVector(op.getShuffleResult(),
               vector::ShuffleOp::create(b, lanes, lanes, from));
  return success();
}

/// Fragments are passed through memory, 32 lanes of each register.
void WarpKernel::multiply(simt::MmaOp op) {
  auto spill = [&](OperandRange registers, int use) {
    Value memory = scratch(registers.size() * 4 * warpSize, use);
    for (auto [i, value] : llvm::enumerate(registers))
      LLVM::StoreOp::create(b, vector(value), at(memory, i * 4 * warpSize), 64);
    return memory;
  };
  Value left = spill(op.getA(), 2), right = spill(op.getB(), 3),
        sums = spill(op.getC(), 4);
  Type i32 = b.getI32Type();
  call(offsetof(kvc_simt_ops, warp_mma), {},
       {left, right, sums, number(i32, op.getB().size() / 2),
        number(i32, op.getElement().isBF16())},
       /*withContext=*/false);
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    defineVector(result, LLVM::LoadOp::create(b, lanesOf(b.getF32Type()),
                                              at(sums, i * 4 * warpSize), 64));
}

/// A function of one number that the table has.
void WarpKernel::function(Operation &op, int64_t entry) {
  Value x = op.getOperand(0), y = op.getResult(0);
  if (isUniform(x))
    return defineScalar(y, call(entry, b.getF32Type(), base(x),
                                /*withContext=*/false));
  if (isa<simt::Exp2Op>(op))
    return defineVector(y, helper("kvc_exp2", vector(x)));
  defineVector(y,
               helper("kvc_map_f32", {HostFrame::function(entry), vector(x)}));
}
