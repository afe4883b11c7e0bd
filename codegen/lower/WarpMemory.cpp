//===- WarpMemory.cpp - reads and writes of a warp -------------------------===//
//
// One access for all lanes where the address is the same or grows by one element from
// lane to lane. All others are functions that look at the lanes one by one, in their
// order, and only at those that are active.
//
//===----------------------------------------------------------------------===//

#include "codegen/lower/WarpKernel.h"

using namespace mlir;
using namespace kvc;

static Type elementType(Value memref) {
  return cast<MemRefType>(memref.getType()).getElementType();
}

/// A bit has a byte of memory.
static unsigned bitsInMemory(Type type) {
  return type.isIndex() ? 64 : std::max(8u, type.getIntOrFloatBitWidth());
}

static std::string named(const char *kind, Type element) {
  return std::string("kvc_") + kind + "_i" +
         std::to_string(bitsInMemory(element));
}

/// The address of element `index`.
Value WarpKernel::element(Value memref, Value index) {
  Value address = addresses.lookup(memref);
  if (!index)
    return address;
  return LLVM::GEPOp::create(
      b, pointer, b.getIntegerType(bitsInMemory(elementType(memref))), address,
      ArrayRef<LLVM::GEPArg>{index});
}

/// The address that the lanes' offsets are from.
Value WarpKernel::indexBase(Value memref, OperandRange indices) {
  return element(memref,
                 indices.empty() ? Value() : values[indices.front()].base);
}

bool WarpKernel::isUniform(OperandRange indices) const {
  return indices.empty() || isUniform(indices.front());
}

bool WarpKernel::isContiguous(OperandRange indices, int64_t stride) {
  if (indices.empty())
    return false;
  Lanes &lanes = values[indices.front()];
  return !lanes.vector && !lanes.isLimited() && lanes.stride == stride;
}

/// Memory of the function, one for each use: what is in it is used at once.
Value WarpKernel::scratch(int64_t bytes, int use) {
  Value &memory = scratches[{bytes, use}];
  if (!memory) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&func.getBody().front());
    memory = LLVM::AllocaOp::create(b, pointer, b.getI8Type(),
                                    number(b.getI64Type(), bytes), 64);
  }
  return memory;
}

Value WarpKernel::table(OperandRange indices) {
  Lanes *lanes = indices.empty() || isUniform(indices)
                     ? nullptr
                     : &values[indices.front()];
  OpBuilder::InsertionGuard guard(b);
  if (!lanes || (!lanes->vector && !lanes->isLimited())) {
    // Known when the function begins.
    int64_t stride = lanes ? lanes->stride : 0;
    Value &known = scratches[{stride, -1}];
    if (!known) {
      b.setInsertionPointToStart(&func.getBody().front());
      known = LLVM::AllocaOp::create(b, pointer, b.getI8Type(),
                                     number(b.getI64Type(), 8 * warpSize), 64);
      LLVM::StoreOp::create(b, iota(b.getI64Type(), stride), known, 64);
    }
    return known;
  }
  insertWhereKnown(*lanes);
  if (!lanes->offsets) {
    lanes->offsets = lanes->vector;
    if (lanes->isLimited())
      lanes->offsets = limited(*lanes, b.getI64Type());
    else if (lanes->stride) {
      Value &sum = offsetSums[{lanes->vector, lanes->stride}];
      if (!sum) {
        b.setInsertionPointAfterValue(lanes->vector);
        sum = arith::AddIOp::create(b, lanes->vector,
                                    iota(b.getI64Type(), lanes->stride));
      }
      lanes->offsets = sum;
    }
  }
  Value &known = tables[lanes->offsets];
  if (!known) {
    Value memory;
    {
      OpBuilder::InsertionGuard entry(b);
      b.setInsertionPointToStart(&func.getBody().front());
      memory = LLVM::AllocaOp::create(b, pointer, b.getI8Type(),
                                      number(b.getI64Type(), 8 * warpSize), 64);
    }
    b.setInsertionPointAfterValue(lanes->offsets);
    LLVM::StoreOp::create(b, lanes->offsets, memory, 64);
    known = memory;
  }
  return known;
}

Value WarpKernel::helper(StringRef name, ValueRange operands) {
  auto call = func::CallOp::create(b, warpHelper(module, name), operands);
  return call.getNumResults() ? call.getResult(0) : Value();
}

void WarpKernel::load(memref::LoadOp op) {
  Type type = op.getType();
  unsigned bits = bitsInMemory(type);
  Value address = indexBase(op.getMemRef(), op.getIndices());
  if (isUniform(op.getIndices())) {
    ++counts.contiguous;
    return defineScalar(op, LLVM::LoadOp::create(b, scalarOf(type), address));
  }
  Type inMemory = type.isInteger(1) ? Type(b.getI8Type()) : elementOf(type);
  auto lanes = VectorType::get({warpSize}, inMemory);
  Value loaded;
  if (isContiguous(op.getIndices()) && (!maskVector || bits >= 32)) {
    ++counts.contiguous;
    loaded =
        maskVector
            ? LLVM::MaskedLoadOp::create(b, lanes, address, maskVector,
                                         zeros(lanes), bits / 8)
                  .getResult()
            : LLVM::LoadOp::create(b, lanes, address, bits / 8).getResult();
  } else if (!maskVector && bits >= 32 &&
             values[op.getIndices().front()].isLimited()) {
    // In a row between two elements, which the lanes outside have.
    ++counts.contiguous;
    Lanes &limits = values[op.getIndices().front()];
    Value numbers = iota(b.getI32Type(), 1);
    auto element = [&](Value limit) {
      Value offset = arith::ExtUIOp::create(b, b.getI64Type(), limit);
      return splat(LLVM::LoadOp::create(
          b, inMemory,
          LLVM::GEPOp::create(b, pointer, b.getIntegerType(bits), address,
                              ArrayRef<LLVM::GEPArg>{offset})));
    };
    Value above = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, numbers,
                                        splat(limits.low));
    Value below = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, numbers,
                                        splat(limits.high));
    Value outside = arith::SelectOp::create(b, above, element(limits.high),
                                            element(limits.low));
    loaded = LLVM::MaskedLoadOp::create(b, lanes, address,
                                        arith::AndIOp::create(b, above, below),
                                        outside, bits / 8);
  } else {
    ++counts.scattered;
    loaded = helper(named("gather", type),
                    {address, table(op.getIndices()), activeBits()});
    if (loaded.getType() != lanes)
      loaded = arith::BitcastOp::create(b, lanes, loaded);
  }
  if (type.isInteger(1))
    loaded = arith::TruncIOp::create(b, lanesOf(type), loaded);
  defineVector(op, loaded);
}

void WarpKernel::store(memref::StoreOp op) {
  Type type = op.getValue().getType();
  unsigned bits = bitsInMemory(type);
  Value address = indexBase(op.getMemRef(), op.getIndices());
  if (isUniform(op.getIndices()) && isUniform(op.getValue())) {
    ++counts.contiguous;
    LLVM::StoreOp::create(b, base(op.getValue()), address);
    return;
  }
  Value stored = vector(op.getValue());
  if (type.isInteger(1))
    stored = arith::ExtUIOp::create(
        b, VectorType::get({warpSize}, b.getI8Type()), stored);
  if (isUniform(op.getIndices())) {
    // One place: the last active lane's stays.
    ++counts.contiguous;
    Type i32 = b.getI32Type();
    Value last = arith::SubIOp::create(
        b, number(i32, warpSize - 1),
        math::CountLeadingZerosOp::create(b, activeBits()));
    Value one = vector::ExtractOp::create(
        b, stored,
        ArrayRef<OpFoldResult>{
            arith::IndexCastUIOp::create(b, b.getIndexType(), last)
                .getResult()});
    LLVM::StoreOp::create(b, one, address);
    return;
  }
  if (isContiguous(op.getIndices()) && (!maskVector || bits >= 32)) {
    ++counts.contiguous;
    if (maskVector)
      LLVM::MaskedStoreOp::create(b, stored, address, maskVector, bits / 8);
    else
      LLVM::StoreOp::create(b, stored, address, bits / 8);
    return;
  }
  ++counts.scattered;
  auto integers = VectorType::get({warpSize}, b.getIntegerType(bits));
  if (stored.getType() != integers)
    stored = arith::BitcastOp::create(b, integers, stored);
  helper(named("scatter", type),
         {address, table(op.getIndices()), activeBits(), stored});
}

void WarpKernel::load(vector::LoadOp op) {
  auto type = op.getVectorType();
  Type element = type.getElementType();
  Value address = indexBase(op.getBase(), op.getIndices());
  if (isUniform(op.getIndices())) {
    ++counts.contiguous;
    int64_t align = op.getAlignment().value_or(bitsInMemory(element) / 8);
    return defineScalar(op, LLVM::LoadOp::create(b, type, address, align));
  }
  ++counts.scattered;
  int64_t bits = element.getIntOrFloatBitWidth(),
          count = type.getNumElements() * bits / 32;
  Value out = scratch(count * 4 * warpSize, 0);
  std::string name = std::to_string(count) + "_" + std::to_string(bits);
  Value offsets = table(op.getIndices());
  if (!maskVector && count == 4)
    helper("kvc_turn_" + name, {address, offsets, out});
  else
    helper("kvc_read_" + name, {address, offsets, activeBits(), out});
  Lanes lanes;
  for (int64_t i = 0; i < count; ++i)
    lanes.words.push_back(
        LLVM::LoadOp::create(b, VectorType::get({warpSize}, b.getI32Type()),
                             at(out, i * 4 * warpSize), 64));
  define(op, std::move(lanes));
}

void WarpKernel::store(vector::StoreOp op) {
  auto type = op.getVectorType();
  Value address = indexBase(op.getBase(), op.getIndices());
  if (isUniform(op.getIndices()) && isUniform(op.getValueToStore())) {
    ++counts.contiguous;
    int64_t align =
        op.getAlignment().value_or(bitsInMemory(type.getElementType()) / 8);
    LLVM::StoreOp::create(b, base(op.getValueToStore()), address, align);
    return;
  }
  ++counts.scattered;
  SmallVector<Value> words = wordsOf(op.getValueToStore());
  Value in = scratch(words.size() * 4 * warpSize, 1);
  for (auto [i, word] : llvm::enumerate(words))
    LLVM::StoreOp::create(b, word, at(in, i * 4 * warpSize), 64);
  helper("kvc_write_" + std::to_string(words.size()) + "_" +
             std::to_string(type.getElementTypeBitWidth()),
         {address, table(op.getIndices()), activeBits(), in});
}

/// There at once: whether somebody waits is the PTX machine's to see.
void WarpKernel::copy(simt::AsyncCopyOp op) {
  auto index = [&](unsigned i) { return op->getOperands().slice(i, 1); };
  Value from = indexBase(op.getFrom(), index(1)),
        to = indexBase(op.getTo(), index(3));
  int64_t bits = bitsInMemory(elementType(op.getFrom())),
          words = op.getCount() * bits / 32, count = op.getCount();
  if (!maskVector && isContiguous(index(1), count) &&
      isContiguous(index(3), count)) {
    ++counts.contiguous;
    auto all = VectorType::get({words * warpSize}, b.getI32Type());
    Value moved = LLVM::LoadOp::create(b, all, from, 4);
    LLVM::StoreOp::create(b, moved, to, 4);
    return;
  }
  ++counts.scattered;
  helper("kvc_copy_" + std::to_string(words) + "_" + std::to_string(bits),
         {from, table(index(1)), activeBits(), to, table(index(3))});
}

/// Of one place; 32 would be as many lines.
void WarpKernel::prefetch(memref::PrefetchOp op) {
  if (isUniform(op.getIndices()))
    LLVM::Prefetch::create(b, indexBase(op.getMemref(), op.getIndices()),
                           op.getIsWrite(), op.getLocalityHint(),
                           op.getIsDataCache());
}

LogicalResult WarpKernel::atomic(memref::AtomicRMWOp op) {
  StringRef kind = op.getKind() == arith::AtomicRMWKind::addi   ? "add"
                   : op.getKind() == arith::AtomicRMWKind::ori  ? "or"
                   : op.getKind() == arith::AtomicRMWKind::maxs ? "max"
                                                                : "";
  if (kind.empty() || !op.getType().isInteger(32))
    return fail(op, "must add, be an or or a maximum, of 32 bits");
  bool ofBlock = gpu::GPUDialect::hasWorkgroupMemoryAddressSpace(
      cast<MemRefType>(op.getMemref().getType()));
  if (ofBlock && kind == "max")
    return fail(op, "a maximum must be in global memory");
  ++counts.scattered;
  Value old = helper(
      (StringRef(ofBlock ? "kvc_plain_" : "kvc_atomic_") + kind + "_i32").str(),
      {indexBase(op.getMemref(), op.getIndices()), table(op.getIndices()),
       activeBits(), vector(op.getValue())});
  defineVector(op, old);
  return success();
}
