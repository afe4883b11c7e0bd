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

/// Where registers lie, 32 lanes of each: as a rule several products of a block read the
/// same ones, and the next adds to the sums of the last.
WarpKernel::Fragment &WarpKernel::fragment(ValueRange registers) {
  SmallVector<Value> vectors;
  for (Value value : registers)
    vectors.push_back(vector(value));
  for (Fragment &known : fragments)
    if (known.registers == vectors)
      return known;
  constexpr int firstUse = 2;
  Value memory = scratch(registers.size() * 4 * warpSize,
                         firstUse + int(fragments.size()));
  for (auto [i, value] : llvm::enumerate(vectors))
    LLVM::StoreOp::create(b, value, at(memory, i * 4 * warpSize), 64);
  return fragments.emplace_back(Fragment{vectors, memory});
}

/// Fragments are passed through memory.
void WarpKernel::multiply(simt::MmaOp op) {
  Value left = fragment(op.getA()).memory, right = fragment(op.getB()).memory;
  Fragment &added = fragment(op.getC());
  Value sums = added.memory;
  Type i32 = b.getI32Type();
  call(offsetof(kvc_simt_ops, warp_mma), {},
       {left, right, sums, number(i32, op.getB().size() / 2),
        number(i32, op.getElement().isBF16())},
       /*withContext=*/false);
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    added.registers[i] = LLVM::LoadOp::create(b, lanesOf(b.getF32Type()),
                                              at(sums, i * 4 * warpSize), 64);
    defineVector(result, added.registers[i]);
  }
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
