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

/// Memory for the four sums of each lane.
WarpKernel::Fragment &WarpKernel::newSums() {
  constexpr int registers = 4, firstUse = 2;
  return sums.emplace_back(
      Fragment{SmallVector<Value>(registers),
               scratch(registers * 4 * warpSize, firstUse + int(sums.size()))});
}

/// Where sums lie, 32 lanes of each register: as a rule the next product adds to the sums
/// of the last.
WarpKernel::Fragment &WarpKernel::sumsOf(ValueRange registers) {
  SmallVector<Value> vectors;
  for (Value value : registers)
    vectors.push_back(vector(value));
  for (Fragment &known : sums)
    if (known.registers == vectors)
      return known;
  Fragment &added = newSums();
  for (auto [i, value] : llvm::enumerate(vectors))
    LLVM::StoreOp::create(b, value, at(added.memory, i * 4 * warpSize), 64);
  return added;
}

/// The last of `values` to be known, where all are.
static Value lastKnown(ArrayRef<Value> values) {
  Value last = values.front();
  auto depth = [](Block *block) {
    int64_t parents = 0;
    for (Operation *op = block->getParentOp(); op; op = op->getParentOp())
      ++parents;
    return parents;
  };
  for (Value value : values.drop_front()) {
    Block *block = value.getParentBlock(), *ofLast = last.getParentBlock();
    if (block != ofLast) {
      if (depth(block) > depth(ofLast))
        last = value;
      continue;
    }
    Operation *op = value.getDefiningOp(), *before = last.getDefiningOp();
    if (op && (!before || before->isBeforeInBlock(op)))
      last = value;
  }
  return last;
}

/// Registers of a side, widened. Those of a block around this one are widened where they
/// are known, in front of the loop, say, and have memory of their own; this block's take
/// turns in some.
Value WarpKernel::widened(ValueRange registers, Sides &sides, bool isBF16) {
  SmallVector<Value> vectors;
  for (Value value : registers)
    vectors.push_back(vector(value));
  for (const Fragment &known : llvm::concat<Fragment>(sides.held, sides.own))
    if (known.registers == vectors)
      return known.memory;
  constexpr size_t turns = 8;
  constexpr int narrow = -2;
  OpBuilder::InsertionGuard guard(b);
  Value last = lastKnown(vectors);
  bool isOwn = last.getParentBlock() == b.getInsertionBlock();
  if (!isOwn)
    b.setInsertionPointAfterValue(last);
  else if (sides.own.size() == turns)
    sides.own.clear();
  SmallVector<Fragment> &among = isOwn ? sides.own : sides.held;
  int64_t words = int64_t(vectors.size()) * warpSize;
  Value from = scratch(words * 4, narrow),
        to = scratch(words * 8,
                     sides.firstUse + int(among.size()) + (isOwn ? 0 : turns));
  for (auto [i, value] : llvm::enumerate(vectors))
    LLVM::StoreOp::create(b, value, at(from, i * 4 * warpSize), 64);
  Type i32 = b.getI32Type();
  call(sides.entry, {},
       {from, to, number(i32, words / sides.wordsOfStep),
        number(i32, isBF16)},
       /*withContext=*/false);
  return among.emplace_back(Fragment{vectors, to}).memory;
}

/// Operands and sums are passed through memory.
void WarpKernel::multiply(simt::MmaOp op) {
  bool isBF16 = op.getElement().isBF16();
  Value left = widened(op.getA(), lefts, isBF16),
        right = widened(op.getB(), rights, isBF16);
  bool fresh = llvm::all_of(op.getC(), [](Value sum) {
    return matchPattern(sum, m_PosZeroFloat());
  });
  Fragment &added = fresh ? newSums() : sumsOf(op.getC());
  Type i32 = b.getI32Type();
  call(offsetof(kvc_simt_ops, warp_product), {},
       {left, right, added.memory, number(i32, op.getB().size() / 2),
        number(i32, fresh)},
       /*withContext=*/false);
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    added.registers[i] =
        LLVM::LoadOp::create(b, lanesOf(b.getF32Type()),
                             at(added.memory, i * 4 * warpSize), 64);
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
