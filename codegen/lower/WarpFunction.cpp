//===- WarpFunction.cpp - the function, op by op ---------------------------===//

#include "codegen/lower/WarpKernel.h"

#include "kvc/simt.h"

#include "llvm/ADT/ScopeExit.h"

#include <cstddef>

using namespace mlir;
using namespace kvc;

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
  bool together =
      isa<gpu::BarrierOp, simt::TeamBarrierOp, gpu::ShuffleOp, simt::BallotOp,
          simt::SumOp, simt::MmaOp, simt::SyncWarpOp>(op);
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
  } else if (isa<gpu::BarrierOp, simt::TeamBarrierOp>(op)) {
    barriers = true;
    call(offsetof(kvc_simt_ops, barrier), {}, {});
  } else if (isa<simt::SyncWarpOp, simt::AsyncCommitOp, simt::AsyncWaitOp>(
                 op)) {
    // The lanes are in step, and copies are there at once.
  } else if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
    return this->shuffle(shuffle);
  } else if (auto ballot = dyn_cast<simt::BallotOp>(op)) {
    defineScalar(ballot, bitsOf(vector(ballot.getBit())));
  } else if (auto sum = dyn_cast<simt::SumOp>(op)) {
    defineScalar(sum, vector::ReductionOp::create(b, vector::CombiningKind::ADD,
                                                  vector(sum.getNumber())));
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

//===----------------------------------------------------------------------===//
// Branches and loops
//===----------------------------------------------------------------------===//

/// What control flow hands on of values: scalars of those that are uniform or linear in
/// `like`, 32 lanes of the others.
SmallVector<Value> WarpKernel::pack(ValueRange values, ValueRange like) {
  SmallVector<Value> parts;
  for (auto [value, form] : llvm::zip(values, like))
    if (forms.of(form).kind != LaneForm::Varying)
      parts.push_back(base(value));
    else if (isa<VectorType>(value.getType()))
      parts.append(wordsOf(value));
    else
      parts.push_back(vector(value));
  return parts;
}

void WarpKernel::unpack(ValueRange values, ValueRange parts) {
  for (Value value : values) {
    auto type = dyn_cast<VectorType>(value.getType());
    if (forms.of(value).kind != LaneForm::Varying) {
      defineScalar(value, parts.front());
      parts = parts.drop_front();
    } else if (type) {
      size_t count = type.getNumElements() * type.getElementTypeBitWidth() / 32;
      Lanes lanes;
      lanes.words.assign(parts.begin(), parts.begin() + count);
      define(value, std::move(lanes));
      parts = parts.drop_front(count);
    } else {
      defineVector(value, parts.front());
      parts = parts.drop_front();
    }
  }
}

LogicalResult WarpKernel::branch(scf::IfOp op) {
  if (forms.diverges(op))
    return divergent(op);
  // The types of the results are known when the branches are.
  auto draft = scf::IfOp::create(b, TypeRange(), base(op.getCondition()),
                                 /*addThenBlock=*/true, /*addElseBlock=*/true);
  SmallVector<Value> yields[2];
  for (bool otherwise : {false, true}) {
    Block *from = otherwise ? op.elseBlock() : op.thenBlock();
    Block *to = otherwise ? draft.elseBlock() : draft.thenBlock();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(to);
    if (from) {
      if (failed(translate(*from)))
        return failure();
      yields[otherwise] =
          pack(from->getTerminator()->getOperands(), op.getResults());
    }
    scf::YieldOp::create(b, yields[otherwise]);
  }
  auto made = scf::IfOp::create(b, ValueRange(yields[0]).getTypes(),
                                draft.getCondition(), /*addThenBlock=*/false,
                                /*addElseBlock=*/false);
  made.getThenRegion().takeBody(draft.getThenRegion());
  if (op.elseBlock())
    made.getElseRegion().takeBody(draft.getElseRegion());
  draft.erase();
  unpack(op.getResults(), made.getResults());
  return success();
}

/// True for a few ops that all lanes may compute, whether or not they are to.
static bool isCheap(Block *block) {
  unsigned count = 0;
  for (Operation &op : block->without_terminator())
    if (!isa<arith::ArithDialect, math::MathDialect>(op.getDialect()) ||
        isa<arith::DivUIOp, arith::RemUIOp, arith::DivSIOp, arith::RemSIOp>(
            op) ||
        ++count > 8)
      return false;
  return true;
}

/// Both branches one after the other, each if any lane takes it.
LogicalResult WarpKernel::divergent(scf::IfOp op) {
  ++counts.masked;
  Value condition = vector(op.getCondition());
  SmallVector<Value> results[2];
  Value outerVector = maskVector, outerBits = maskBits;
  for (bool otherwise : {false, true}) {
    Block *block = otherwise ? op.elseBlock() : op.thenBlock();
    if (!block)
      continue;
    ValueRange yields = block->getTerminator()->getOperands();
    if (block->without_terminator().empty() || isCheap(block)) {
      if (failed(translate(*block)))
        return failure();
      results[otherwise] = pack(yields, op.getResults());
      continue;
    }
    Value takes = condition;
    if (otherwise)
      takes =
          arith::XOrIOp::create(b, condition, splat(number(b.getI1Type(), 1)));
    Value mask = masked(takes), bits = bitsOf(mask);
    Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bits,
                                      number(b.getI32Type(), 0));
    auto draft = scf::IfOp::create(b, TypeRange(), any, true, true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(draft.thenBlock());
      maskVector = mask;
      maskBits = bits;
      if (failed(translate(*block)))
        return failure();
      results[otherwise] = pack(yields, op.getResults());
      scf::YieldOp::create(b, results[otherwise]);
      maskVector = outerVector;
      maskBits = outerBits;
      b.setInsertionPointToEnd(draft.elseBlock());
      SmallVector<Value> nothing;
      for (Value value : results[otherwise])
        nothing.push_back(zeros(cast<VectorType>(value.getType())));
      scf::YieldOp::create(b, nothing);
    }
    auto made = scf::IfOp::create(b, ValueRange(results[otherwise]).getTypes(),
                                  any, false, false);
    made.getThenRegion().takeBody(draft.getThenRegion());
    if (!results[otherwise].empty())
      made.getElseRegion().takeBody(draft.getElseRegion());
    draft.erase();
    results[otherwise].assign(made.result_begin(), made.result_end());
  }
  SmallVector<Value> chosen;
  for (auto [yes, no] : llvm::zip(results[0], results[1]))
    chosen.push_back(arith::SelectOp::create(b, condition, yes, no));
  unpack(op.getResults(), chosen);
  return success();
}

LogicalResult WarpKernel::loop(scf::ForOp op) {
  if (op.getUnsignedCmp())
    return fail(op, "must compare signed numbers");
  if (forms.diverges(op))
    return divergent(op);
  auto made = scf::ForOp::create(
      b, base(op.getLowerBound()), base(op.getUpperBound()), base(op.getStep()),
      pack(op.getInitArgs(), op.getRegionIterArgs()));
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body = made.getBody();
    if (!body->empty())
      body->back().erase();
    b.setInsertionPointToStart(body);
    defineScalar(op.getInductionVar(), made.getInductionVar());
    unpack(op.getRegionIterArgs(), made.getRegionIterArgs());
    if (failed(translate(*op.getBody())))
      return failure();
    scf::YieldOp::create(b,
                         pack(op.getYieldedValues(), op.getRegionIterArgs()));
  }
  unpack(op.getResults(), made.getResults());
  return success();
}

/// Goes on while any lane does. What lanes that have left carry stays.
LogicalResult WarpKernel::divergent(scf::ForOp op) {
  ++counts.masked;
  if (!isUniform(op.getStep()))
    return fail(op, "must have the same step in all lanes");
  Value counter = op.getInductionVar();
  // Where only the base moves, the lanes' distances from it are as they begin.
  Lanes first = values[op.getLowerBound()];
  bool byBase = !first.vector;
  SmallVector<Value> starts{byBase ? base(op.getLowerBound())
                                   : vector(op.getLowerBound())};
  starts.append(pack(op.getInitArgs(), op.getRegionIterArgs()));
  Value step = base(op.getStep());
  SmallVector<Type> types(ValueRange(starts).getTypes());
  SmallVector<Type> passed = types;
  passed.append({VectorType::get({warpSize}, b.getI1Type()), b.getI32Type()});
  SmallVector<Location> locs(passed.size(), op.getLoc());
  Value outerVector = maskVector, outerBits = maskBits;
  auto made = scf::WhileOp::create(b, passed, starts);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *before = b.createBlock(&made.getBefore(), {}, types,
                                  ArrayRef(locs).take_front(types.size()));
    auto counted = [&](Value value) {
      Lanes lanes;
      (byBase ? lanes.base : lanes.vector) = value;
      if (!byBase)
        lanes.full = value;
      lanes.stride = byBase ? first.stride : 0;
      lanes.low = first.low;
      lanes.high = first.high;
      lanes.block = b.getInsertionBlock();
      return lanes;
    };
    Lanes now = counted(before->getArgument(0));
    Value mask = counter.getType().isIndex()
                     ? compare(arith::CmpIPredicate::slt, now,
                               values[op.getUpperBound()])
                     : Value();
    if (!mask)
      mask = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                   vectorOf(now, counter.getType()),
                                   vector(op.getUpperBound()));
    mask = masked(mask);
    Value bits = bitsOf(mask);
    Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bits,
                                      number(b.getI32Type(), 0));
    SmallVector<Value> state(before->getArguments());
    state.append({mask, bits});
    scf::ConditionOp::create(b, any, state);

    Block *body = b.createBlock(&made.getAfter(), {}, passed, locs);
    ValueRange carried = body->getArguments().slice(1, types.size() - 1);
    maskVector = body->getArgument(types.size());
    maskBits = body->getArgument(types.size() + 1);
    define(counter, counted(body->getArgument(0)));
    unpack(op.getRegionIterArgs(), carried);
    if (failed(translate(*op.getBody())))
      return failure();
    SmallVector<Value> next{arith::AddIOp::create(b, body->getArgument(0),
                                                  byBase ? step : splat(step))};
    for (auto [value, old] : llvm::zip(
             pack(op.getYieldedValues(), op.getRegionIterArgs()), carried))
      next.push_back(arith::SelectOp::create(b, maskVector, value, old));
    scf::YieldOp::create(b, next);
    maskVector = outerVector;
    maskBits = outerBits;
  }
  unpack(op.getResults(), made.getResults().slice(1, types.size() - 1));
  return success();
}
