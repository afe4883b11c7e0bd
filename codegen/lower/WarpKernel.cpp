//===- WarpKernel.cpp - the function, op by op -----------------------------===//

#include "codegen/lower/WarpKernel.h"

#include "kvc/simt.h"

#include "llvm/ADT/ScopeExit.h"

#include <cstddef>

using namespace mlir;
using namespace kvc;

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

/// Addresses and sizes are 64 bits.
Type WarpKernel::scalarOf(Type type) {
  return type.isIndex() ? Type(b.getI64Type()) : type;
}

/// 16-bit floats are kept as their bits: LLVM would round what goes from block to block
/// by functions of a library.
Type WarpKernel::elementOf(Type type) {
  return type.isF16() || type.isBF16() ? Type(b.getI16Type()) : scalarOf(type);
}

VectorType WarpKernel::lanesOf(Type type) {
  return VectorType::get({warpSize}, elementOf(type));
}

Value WarpKernel::number(Type type, int64_t n) {
  return arith::ConstantOp::create(
      b, isa<FloatType>(type) ? TypedAttr(b.getFloatAttr(type, double(n)))
                              : TypedAttr(b.getIntegerAttr(type, n)));
}

Value WarpKernel::zeros(VectorType type) {
  return arith::ConstantOp::create(b, b.getZeroAttr(type));
}

Value WarpKernel::iota(Type element, int64_t stride) {
  SmallVector<Attribute> numbers;
  for (int64_t lane = 0; lane < warpSize; ++lane)
    numbers.push_back(b.getIntegerAttr(
        element, APInt(element.getIntOrFloatBitWidth(), uint64_t(lane * stride),
                       /*isSigned=*/true, /*implicitTrunc=*/true)));
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(VectorType::get({warpSize}, element), numbers));
}

Value WarpKernel::splat(Value scalar) {
  if (scalar.getType().isF16() || scalar.getType().isBF16())
    scalar = arith::BitcastOp::create(b, b.getI16Type(), scalar);
  return vector::BroadcastOp::create(
      b, VectorType::get({warpSize}, scalar.getType()), scalar);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void WarpKernel::define(Value value, Lanes lanes) {
  lanes.block = b.getInsertionBlock();
  Block::iterator at = b.getInsertionPoint();
  lanes.after = at == lanes.block->begin() ? nullptr : &*std::prev(at);
  LaneForm::Kind kind = forms.of(value).kind;
  ++(kind == LaneForm::Uniform  ? counts.uniform
     : kind == LaneForm::Linear ? counts.linear
                                : counts.varying);
  values[value] = std::move(lanes);
}

void WarpKernel::defineScalar(Value value, Value scalar) {
  Lanes lanes;
  lanes.base = scalar;
  lanes.stride = forms.of(value).stride;
  define(value, std::move(lanes));
}

void WarpKernel::defineVector(Value value, Value vector) {
  Lanes lanes;
  lanes.vector = lanes.full = vector;
  define(value, std::move(lanes));
}

void WarpKernel::insertWhereKnown(const Lanes &lanes) {
  if (lanes.after)
    b.setInsertionPointAfter(lanes.after);
  else
    b.setInsertionPointToStart(lanes.block);
}

Value WarpKernel::baseOf(Lanes &lanes, Type type) {
  if (!lanes.base) {
    OpBuilder::InsertionGuard guard(b);
    insertWhereKnown(lanes);
    lanes.base = number(scalarOf(type), 0);
  }
  return lanes.base;
}

Value WarpKernel::base(Value value) {
  return baseOf(values[value], value.getType());
}

Value WarpKernel::vector(Value value) {
  return vectorOf(values[value], value.getType());
}

Value WarpKernel::vectorOf(Lanes &lanes, Type type) {
  if (lanes.full)
    return lanes.full;
  OpBuilder::InsertionGuard guard(b);
  insertWhereKnown(lanes);
  Value sum = lanes.vector;
  auto add = [&](Value part) {
    sum = sum ? arith::AddIOp::create(b, sum, part).getResult() : part;
  };
  if (lanes.isLimited())
    add(limited(lanes, scalarOf(type)));
  else if (lanes.stride)
    add(iota(scalarOf(type), lanes.stride));
  if (lanes.base)
    add(splat(lanes.base));
  return lanes.full = sum ? sum : zeros(lanesOf(type));
}

SmallVector<Value> WarpKernel::wordsOf(Value value) {
  Lanes &lanes = values[value];
  if (!lanes.words.empty())
    return lanes.words;
  auto type = llvm::cast<VectorType>(value.getType());
  int64_t count = type.getNumElements() * type.getElementTypeBitWidth() / 32;
  OpBuilder::InsertionGuard guard(b);
  insertWhereKnown(lanes);
  Value words = vector::BitCastOp::create(
      b, VectorType::get({count}, b.getI32Type()), lanes.base);
  for (int64_t i = 0; i < count; ++i)
    lanes.words.push_back(splat(vector::ExtractOp::create(b, words, i)));
  return lanes.words;
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

LogicalResult WarpKernel::build(StringRef name) {
  func =
      func::FuncOp::create(b, name, b.getFunctionType({pointer, pointer}, {}));
  func.setPrivate();
  Block *entry = func.addEntryBlock();
  b.setInsertionPointToStart(entry);
  context = entry->getArgument(0);
  unsigned arguments = kernel.getFunctionType().getNumInputs();
  for (unsigned i = 0; i < arguments; ++i) {
    BlockArgument value = kernel.getBody().getArgument(i);
    Value slot = argument(entry->getArgument(1), i, value.getType());
    if (isa<MemRefType>(value.getType()))
      addresses[value] = slot;
    else
      defineScalar(value, slot);
  }
  shared = field(pointer, offsetof(kvc_simt_thread, shared));
  placeShared(kernel.getWorkgroupAttributions(),
              [&](BlockArgument memory, int64_t offset) {
                addresses[memory] = at(shared, offset);
              });
  if (failed(translate(kernel.getBody().front())))
    return failure();
  func::ReturnOp::create(b);
  func->setAttr("kvc.warp_of", b.getStringAttr(kernel.getName()));
  if (barriers)
    func->setAttr("kvc.barriers", b.getUnitAttr());
  return success();
}

LogicalResult WarpKernel::translate(Block &block) {
  // What another block leaves in the memory of products, nobody knows.
  auto forget = [&] {
    for (SmallVector<Fragment> *own : {&sums, &lefts.own, &rights.own})
      own->clear();
  };
  forget();
  llvm::scope_exit atEnd(forget);
  for (Operation &op : block) {
    if (isa<gpu::ReturnOp, scf::YieldOp>(op))
      continue;
    b.setLoc(op.getLoc());
    if (failed(translate(op)))
      return failure();
  }
  return success();
}

LogicalResult WarpKernel::translate(Operation &op) {
  bool together = isa<gpu::BarrierOp, gpu::ShuffleOp, simt::BallotOp,
                      simt::MmaOp, simt::SyncWarpOp>(op);
  if (together && maskVector)
    return fail(&op, "is reached by some lanes only");
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return this->branch(branch);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return this->loop(loop);
  if (auto id = dyn_cast<gpu::ThreadIdOp>(op)) {
    if (id.getDimension() != gpu::Dimension::x)
      return fail(&op, "has one dimension on the host");
    Value first = field(b.getI32Type(), offsetof(kvc_simt_thread, thread));
    defineScalar(id, arith::ExtUIOp::create(b, b.getI64Type(), first));
  } else if (auto id = dyn_cast<gpu::BlockIdOp>(op)) {
    Value number = field(b.getI32Type(), offsetof(kvc_simt_thread, block) +
                                             4 * int64_t(id.getDimension()));
    defineScalar(id, arith::ExtUIOp::create(b, b.getI64Type(), number));
  } else if (isa<gpu::BarrierOp>(op)) {
    barriers = true;
    call(offsetof(kvc_simt_ops, barrier), {}, {});
  } else if (isa<simt::SyncWarpOp, simt::AsyncCommitOp, simt::AsyncWaitOp>(
                 op)) {
    // The lanes are in step, and copies are there at once.
  } else if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
    return this->shuffle(shuffle);
  } else if (auto ballot = dyn_cast<simt::BallotOp>(op)) {
    defineScalar(ballot, bitsOf(vector(ballot.getBit())));
  } else if (isa<simt::Exp2Op>(op)) {
    function(op, offsetof(kvc_simt_ops, exp2));
  } else if (isa<simt::Log2Op>(op)) {
    function(op, offsetof(kvc_simt_ops, log2));
  } else if (auto mma = dyn_cast<simt::MmaOp>(op)) {
    multiply(mma);
  } else if (auto copy = dyn_cast<simt::AsyncCopyOp>(op)) {
    this->copy(copy);
  } else if (auto view = dyn_cast<memref::ReinterpretCastOp>(op)) {
    if (llvm::any_of(view.getStaticOffsets(),
                     [](int64_t offset) { return offset != 0; }) ||
        llvm::any_of(view.getStaticStrides(),
                     [](int64_t stride) { return stride != 1; }))
      return fail(&op, "must be the whole memory");
    addresses[view] = addresses.lookup(view.getSource());
  } else if (auto view = dyn_cast<memref::CastOp>(op)) {
    addresses[view] = addresses.lookup(view.getSource());
  } else if (auto memory = dyn_cast<memref::AllocaOp>(op)) {
    return allocate(memory);
  } else if (auto load = dyn_cast<memref::LoadOp>(op)) {
    if (load.getMemRef().getDefiningOp<memref::AllocaOp>())
      return loadOwn(load);
    this->load(load);
  } else if (auto store = dyn_cast<memref::StoreOp>(op)) {
    if (store.getMemRef().getDefiningOp<memref::AllocaOp>())
      return storeOwn(store);
    this->store(store);
  } else if (auto load = dyn_cast<vector::LoadOp>(op)) {
    this->load(load);
  } else if (auto store = dyn_cast<vector::StoreOp>(op)) {
    this->store(store);
  } else if (auto prefetch = dyn_cast<memref::PrefetchOp>(op)) {
    this->prefetch(prefetch);
  } else if (auto atomic = dyn_cast<memref::AtomicRMWOp>(op)) {
    return this->atomic(atomic);
  } else if (isa<arith::ArithDialect, math::MathDialect, vector::VectorDialect>(
                 op.getDialect())) {
    return elementwise(op);
  } else {
    return fail(&op, "is not known");
  }
  return success();
}
