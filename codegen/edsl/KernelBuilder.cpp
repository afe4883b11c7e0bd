//===- KernelBuilder.cpp - one gpu.func under construction ----------------===//

#include "codegen/edsl/KernelBuilder.h"

#include "codegen/KernelArgs.h"
#include "codegen/edsl/StartsLate.h"
#include "codegen/simt/SIMT.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kvc;

static Attribute space(MLIRContext *context, gpu::AddressSpace space) {
  return gpu::AddressSpaceAttr::get(context, space);
}

KernelBuilder::KernelBuilder(ImplicitLocOpBuilder &builder, StringRef name,
                             const Shape &shape, const LaunchSpec &spec,
                             const llvm::StringMap<Type> &scratchTypes)
    : b(builder), shape(shape), keys(spec.keys) {
  MLIRContext *context = b.getContext();
  SmallVector<Type> types;
  Type elements = shape.elementType(context);
  if (spec.moves)
    elements = b.getIntegerType(elements.getIntOrFloatBitWidth());
  for (const std::string &arg : spec.args) {
    const ArgSpec *known = findArg(arg);
    Type element;
    if (!known)
      element = scratchTypes.lookup(arg);
    else if (known->isNumber())
      types.push_back(b.getI64Type());
    else if (known->kind == ArgKind::Float)
      types.push_back(b.getF32Type());
    else
      element = known->kind == ArgKind::Elements ? elements
                : known->kind == ArgKind::Floats ? Type(b.getF32Type())
                                                 : Type(b.getI32Type());
    assert((element || known) && "argument without a type");
    if (element)
      types.push_back(
          MemRefType::get({}, element, MemRefLayoutAttrInterface{},
                          space(context, gpu::AddressSpace::Global)));
  }
  func = gpu::GPUFuncOp::create(b, name, b.getFunctionType(types, {}));
  func->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  func.setKnownBlockSizeAttr(
      b.getDenseI32ArrayAttr({int32_t(spec.blockSize), 1, 1}));
  // One block per multiprocessor may be enough: registers come before a second
  // block, else the assembler spills a few to fit two.
  func->setAttr("nvvm.minctasm", b.getI32IntegerAttr(1));
  SmallVector<Attribute> names, grid;
  for (auto [i, arg] : llvm::enumerate(spec.args)) {
    names.push_back(b.getStringAttr(arg));
    const ArgSpec *known = findArg(arg);
    if (!known || known->access == ArgAccess::Write || spec.overwrites ||
        !isa<MemRefType>(types[i]))
      continue;
    // Nothing that the kernel writes is read through these.
    func.setArgAttr(i, "llvm.noalias", b.getUnitAttr());
    // Both together let the compiler use the read-only path, which is for memory that
    // nobody writes while the kernel runs. It may begin before a launch has ended.
    if (known->access == ArgAccess::Read)
      func.setArgAttr(i, "llvm.readonly", b.getUnitAttr());
  }
  for (const std::string &extent : spec.grid)
    grid.push_back(b.getStringAttr(extent));
  func->setAttr("kvc.args", b.getArrayAttr(names));
  func->setAttr("kvc.grid", b.getArrayAttr(grid));
  if (spec.aboveTokens)
    func->setAttr("kvc.above_tokens", b.getI64IntegerAttr(spec.aboveTokens));
  if (spec.upToTokens)
    func->setAttr("kvc.up_to_tokens", b.getI64IntegerAttr(spec.upToTokens));
  b.setInsertionPointToStart(&func.getBody().front());
  for (auto [arg, value] : llvm::zip(spec.args, func.getArguments())) {
    Value v = value;
    if (v.getType().isInteger(64))
      v = arith::IndexCastOp::create(b, b.getIndexType(), v);
    arguments[arg] = v;
  }
}

//===----------------------------------------------------------------------===//
// Constants and arguments
//===----------------------------------------------------------------------===//

Expr KernelBuilder::index(int64_t n) {
  return {b, arith::ConstantIndexOp::create(b, n)};
}
Expr KernelBuilder::i32(int64_t n) {
  return {b, arith::ConstantIntOp::create(b, n, 32)};
}
Expr KernelBuilder::f32(double x) {
  return {b, arith::ConstantOp::create(b, b.getF32FloatAttr(x))};
}
Expr KernelBuilder::boolean(bool x) {
  return {b, arith::ConstantIntOp::create(b, x, 1)};
}
Expr KernelBuilder::zero(Type type) {
  return {b, arith::ConstantOp::create(b, b.getZeroAttr(type))};
}

Expr KernelBuilder::arg(StringRef name) {
  assert(arguments.count(name) && "argument not in the launch spec");
  return {b, arguments.lookup(name)};
}

Buffer KernelBuilder::buffer(StringRef name, ArrayRef<Expr> outerStrides) {
  Value pointer = arg(name);
  auto type = cast<MemRefType>(pointer.getType());
  auto flat =
      MemRefType::get({ShapedType::kDynamic}, type.getElementType(),
                      MemRefLayoutAttrInterface{}, type.getMemorySpace());
  // The extent is the launcher's business; no access is checked against it.
  Value extent = index(std::numeric_limits<int64_t>::max());
  Value view = memref::ReinterpretCastOp::create(
      b, flat, pointer, OpFoldResult(b.getIndexAttr(0)),
      SmallVector<OpFoldResult>{extent},
      SmallVector<OpFoldResult>{b.getIndexAttr(1)});
  Buffer result{view, {}};
  result.strides.append(outerStrides.begin(), outerStrides.end());
  result.strides.push_back(index(1));
  return result;
}

Buffer KernelBuilder::shared(Type element, int64_t count,
                             ArrayRef<Expr> outerStrides, int64_t alignment) {
  // LLVM reads three words as four where these are aligned.
  count = llvm::alignTo(count, 16 * 8 / element.getIntOrFloatBitWidth());
  auto type =
      MemRefType::get({count}, element, MemRefLayoutAttrInterface{},
                      space(b.getContext(), gpu::AddressSpace::Workgroup));
  Value memory = func.addWorkgroupAttribution(type, b.getLoc());
  func.setWorkgroupAttributionAttr(func.getNumWorkgroupAttributions() - 1,
                                   b.getStringAttr("llvm.align"),
                                   b.getI64IntegerAttr(alignment));
  Buffer result{memory, {}};
  result.strides.append(outerStrides.begin(), outerStrides.end());
  result.strides.push_back(index(1));
  return result;
}

Buffer KernelBuilder::own(Type element, int64_t count) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&func.getBody().front());
  auto type =
      MemRefType::get({count}, element, MemRefLayoutAttrInterface{},
                      space(b.getContext(), gpu::AddressSpace::Private));
  return {memref::AllocaOp::create(b, type), {index(1)}};
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

Expr KernelBuilder::thread() {
  return {b, gpu::ThreadIdOp::create(b, gpu::Dimension::x)};
}
Expr KernelBuilder::lane() { return thread() % warpSize; }
Expr KernelBuilder::warp() { return thread() / warpSize; }
Expr KernelBuilder::block(gpu::Dimension dimension) {
  return {b, gpu::BlockIdOp::create(b, dimension)};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// True if `a` is known only where `b` is.
static bool isKnownBehind(Value a, Value b) {
  Block *ofA = a.getParentBlock(), *ofB = b.getParentBlock();
  if (ofA != ofB)
    return ofB->findAncestorOpInBlock(*ofA->getParentOp());
  Operation *opA = a.getDefiningOp(), *opB = b.getDefiningOp();
  return opA && (!opB || opB->isBeforeInBlock(opA));
}

Expr KernelBuilder::once(StringRef name, ArrayRef<Expr> of,
                         llvm::function_ref<Expr()> make) {
  std::vector<void *> values;
  Value last = of.front();
  for (Expr value : of) {
    values.push_back(Value(value).getAsOpaquePointer());
    if (isKnownBehind(value, last))
      last = value;
  }
  Value &made = madeOnce[{name.str(), values}];
  if (!made) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfterValue(last);
    made = make();
  }
  return expr(made);
}

Value KernelBuilder::address(const Buffer &buffer, ArrayRef<Expr> at) {
  if (buffer.place)
    return buffer.place(at);
  assert(at.size() == buffer.strides.size() && "one index per stride");
  Expr sum = at.back();
  for (size_t i = 0; i + 1 < at.size(); ++i)
    sum = sum + at[i] * buffer.strides[i];
  return sum;
}

Expr KernelBuilder::load(const Buffer &buffer, ArrayRef<Expr> at) {
  return {b, memref::LoadOp::create(b, buffer.memref, address(buffer, at))};
}

void KernelBuilder::store(Expr value, const Buffer &buffer, ArrayRef<Expr> at) {
  memref::StoreOp::create(b, value, buffer.memref, address(buffer, at));
}

static llvm::MaybeAlign alignmentOf(VectorType type) {
  return llvm::MaybeAlign(type.getNumElements() *
                          type.getElementTypeBitWidth() / 8);
}

void KernelBuilder::startLate() {
  func->setAttr("passthrough", b.getStrArrayAttr({startsLate}));
}

/// One element of 16 bits, which rows of an odd number of them are accessed by.
static bool isHalfWord(Type element, int64_t width) {
  return width == 1 && element.getIntOrFloatBitWidth() < 32;
}

Expr KernelBuilder::loadVector(const Buffer &buffer, ArrayRef<Expr> at,
                               int64_t width) {
  Type element = cast<MemRefType>(buffer.memref.getType()).getElementType();
  if (isHalfWord(element, width))
    return load(buffer, at);
  auto type = VectorType::get({width}, element);
  return {b, vector::LoadOp::create(b, type, buffer.memref, address(buffer, at),
                                    /*nontemporal=*/false, alignmentOf(type))};
}

void KernelBuilder::storeVector(Expr value, const Buffer &buffer,
                                ArrayRef<Expr> at) {
  if (!isa<VectorType>(value.type()))
    return store(value, buffer, at);
  vector::StoreOp::create(b, value, buffer.memref, address(buffer, at),
                          /*nontemporal=*/false,
                          alignmentOf(cast<VectorType>(value.type())));
}

void KernelBuilder::prefetch(const Buffer &buffer, ArrayRef<Expr> at) {
  memref::PrefetchOp::create(b, buffer.memref, address(buffer, at),
                             /*isWrite=*/false, /*localityHint=*/3,
                             /*isDataCache=*/true);
}

Expr KernelBuilder::narrow(Expr x) {
  if (shape.dtype == DType::F32)
    return x;
  return {b, arith::TruncFOp::create(b, shape.elementType(b.getContext()), x)};
}

Expr KernelBuilder::element(Expr vector, int64_t i) {
  if (!isa<VectorType>(vector.type()))
    return vector;
  return {b, vector::ExtractOp::create(b, vector, i)};
}

Expr KernelBuilder::vectorOf(ArrayRef<Expr> elements) {
  if (isHalfWord(elements.front().type(), int64_t(elements.size())))
    return elements.front();
  auto type =
      VectorType::get({int64_t(elements.size())}, elements.front().type());
  SmallVector<Value> values(elements.begin(), elements.end());
  return {b, vector::FromElementsOp::create(b, type, values)};
}

SmallVector<Expr> KernelBuilder::registers(Expr vector) {
  auto type = cast<VectorType>(vector.type());
  int64_t count = type.getNumElements() * type.getElementTypeBitWidth() / 32;
  Value bits = vector::BitCastOp::create(
      b, VectorType::get({count}, b.getI32Type()), vector);
  SmallVector<Expr> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(element({b, bits}, i));
  return result;
}

void KernelBuilder::storeRegister(Expr bits, const Buffer &buffer,
                                  ArrayRef<Expr> at) {
  Type element = cast<MemRefType>(buffer.memref.getType()).getElementType();
  int64_t count = 32 / element.getIntOrFloatBitWidth();
  Value one = vector::BroadcastOp::create(
      b, VectorType::get({1}, b.getI32Type()), bits);
  Value elements =
      vector::BitCastOp::create(b, VectorType::get({count}, element), one);
  storeVector({b, elements}, buffer, at);
}

void KernelBuilder::copyAsync(const Buffer &from, ArrayRef<Expr> fromAt,
                              const Buffer &to, ArrayRef<Expr> toAt,
                              int64_t width, Expr fromOffset, Expr toOffset) {
  auto at = [&](const Buffer &buffer, ArrayRef<Expr> indices, Expr offset) {
    Expr first = expr(address(buffer, indices));
    return offset.valid() ? first + offset : first;
  };
  simt::AsyncCopyOp::create(b, from.memref, at(from, fromAt, fromOffset),
                            to.memref, at(to, toAt, toOffset), width);
}

void KernelBuilder::commitCopies() { simt::AsyncCommitOp::create(b); }

void KernelBuilder::waitForCopies(int64_t pending) {
  simt::AsyncWaitOp::create(b, pending);
}

void KernelBuilder::publishCopies() { simt::PublishOp::create(b); }

Expr KernelBuilder::atomicAdd(Expr value, const Buffer &buffer,
                              ArrayRef<Expr> at) {
  return {b, memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addi, value,
                                         buffer.memref, address(buffer, at))};
}

void KernelBuilder::atomicMax(Expr value, const Buffer &buffer,
                              ArrayRef<Expr> at) {
  memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::maxs, value,
                              buffer.memref, address(buffer, at));
}

void KernelBuilder::setStatus(int32_t bits) {
  Expr value = i32(bits);
  Buffer status = buffer("status", {});
  memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::ori, value,
                              status.memref, address(status, {index(0)}));
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

static SmallVector<Value> plain(ArrayRef<Expr> exprs) {
  return SmallVector<Value>(exprs.begin(), exprs.end());
}

KernelBuilder::Values
KernelBuilder::loop(Bound from, Bound to, Bound step, ArrayRef<Expr> carried,
                    llvm::function_ref<Values(Expr, ArrayRef<Expr>)> body) {
  auto op = scf::ForOp::create(b, index(from), index(to), index(step),
                               plain(carried));
  {
    OpBuilder::InsertionGuard guard(b);
    if (carried.empty()) // the builder has added a terminator already
      b.setInsertionPoint(op.getBody()->getTerminator());
    else
      b.setInsertionPointToStart(op.getBody());
    Values iter;
    for (Value value : op.getRegionIterArgs())
      iter.push_back(expr(value));
    Values next = body(expr(op.getInductionVar()), iter);
    if (!carried.empty())
      scf::YieldOp::create(b, plain(next));
  }
  Values results;
  for (Value value : op.getResults())
    results.push_back(expr(value));
  return results;
}

Expr KernelBuilder::fold(Bound from, Bound to, Bound step, Expr start,
                         llvm::function_ref<Expr(Expr, Expr)> body) {
  return loop(from, to, step, {start}, [&](Expr i, ArrayRef<Expr> carried) {
    return Values{body(i, carried[0])};
  })[0];
}

void KernelBuilder::loop(Bound from, Bound to, Bound step,
                         llvm::function_ref<void(Expr)> body) {
  loop(from, to, step, {}, [&](Expr i, ArrayRef<Expr>) {
    body(i);
    return Values();
  });
}

/// `count` steps of a stream.
static KernelBuilder::Values
steps(Expr first, int64_t step, int64_t count, ArrayRef<Expr> before,
      llvm::function_ref<KernelBuilder::Values(Expr)> make,
      llvm::function_ref<KernelBuilder::Values(Expr, ArrayRef<Expr>,
                                               ArrayRef<Expr>)>
          use) {
  SmallVector<KernelBuilder::Values> made;
  for (int64_t i = 0; i < count; ++i)
    made.push_back(make(first + i * step));
  KernelBuilder::Values next(before.begin(), before.end());
  for (int64_t i = 0; i < count; ++i)
    next = use(first + i * step, made[i], next);
  return next;
}

KernelBuilder::Values KernelBuilder::streamOver(
    Expr from, Expr to, int64_t step, ArrayRef<Expr> carried,
    llvm::function_ref<Values(Expr)> make,
    llvm::function_ref<Values(Expr, ArrayRef<Expr>, ArrayRef<Expr>)> use,
    int64_t together) {
  auto walk = [&](int64_t count) {
    return loop(from, to, step * count, carried,
                [&](Expr first, ArrayRef<Expr> before) {
                  return steps(first, step, count, before, make, use);
                });
  };
  return eitherForm([&] { return walk(1); }, [&] { return walk(together); });
}

KernelBuilder::Values KernelBuilder::stream(
    Expr from, Expr to, int64_t step, ArrayRef<Expr> carried,
    llvm::function_ref<Values(Expr)> make,
    llvm::function_ref<Values(Expr, ArrayRef<Expr>, ArrayRef<Expr>)> use,
    int64_t together) {
  auto oneByOne = [&](Expr first, ArrayRef<Expr> values) {
    return loop(first, to, step, values, [&](Expr i, ArrayRef<Expr> before) {
      return use(i, make(i), before);
    });
  };
  // For the host, which rolls up what is written out here (kvc-roll-streams).
  auto tag = [&](const char *name) {
    std::prev(b.getInsertionPoint())->setAttr(name, b.getUnitAttr());
  };
  if (together == 1)
    return oneByOne(from, carried);
  // What is left of many is not walked one by one, either.
  constexpr int64_t many = 8, fewer = 4;
  if (together > many)
    return eitherForm(
        [&] { return oneByOne(from, carried); },
        [&] {
          Expr whole = (to - from + (step - 1)).max(index(0)) /
                           (step * together) * (step * together) +
                       from;
          Values values =
              loop(from, whole, step * together, carried,
                   [&](Expr first, ArrayRef<Expr> before) {
                     return steps(first, step, together, before, make, use);
                   });
          return stream(whole, to, step, values, make, use, fewer);
        });
  // A load takes some 300 clocks from L2: four of each of a block's warps keep
  // its schedulers busy for about as long. Constant distances between them
  // become offsets of their loads.
  int64_t span = step * together;
  Expr full = (to - from + (step - 1)).max(index(0)) / span * span + from;
  Values values =
      loop(from, full, span, carried, [&](Expr first, ArrayRef<Expr> before) {
        return steps(first, step, together, before, make, use);
      });
  tag("kvc.stream");
  values = oneByOne(full, values);
  tag("kvc.stream_rest");
  return values;
}

KernelBuilder::Values
KernelBuilder::eitherForm(llvm::function_ref<Values()> oneByOne,
                          llvm::function_ref<Values()> writtenOut) {
  return choose(expr(simt::OneByOneOp::create(b, b.getI1Type())), oneByOne,
                writtenOut);
}

void KernelBuilder::when(Expr condition, llvm::function_ref<void()> then) {
  auto op = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  then();
}

KernelBuilder::Values KernelBuilder::choose(Expr condition,
                                            llvm::function_ref<Values()> yes,
                                            llvm::function_ref<Values()> no) {
  // The branches say the types of the results, but are made in their place, so that
  // what they ask for can be made in front of it.
  auto draft = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  auto fill = [&](Block *block, llvm::function_ref<Values()> body) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(block->getTerminator());
    Values values = body();
    block->getTerminator()->setOperands(plain(values));
    return values;
  };
  Values values = fill(draft.thenBlock(), yes);
  fill(draft.elseBlock(), no);
  auto op = scf::IfOp::create(b, ValueRange(plain(values)).getTypes(),
                              condition, /*addThenBlock=*/false,
                              /*addElseBlock=*/false);
  op.getThenRegion().takeBody(draft.getThenRegion());
  op.getElseRegion().takeBody(draft.getElseRegion());
  draft.erase();
  Values results;
  for (Value value : op.getResults())
    results.push_back(expr(value));
  return results;
}

//===----------------------------------------------------------------------===//
// Threads together
//===----------------------------------------------------------------------===//

void KernelBuilder::barrier() { gpu::BarrierOp::create(b); }
void KernelBuilder::teamBarrier(int64_t threads) {
  simt::TeamBarrierOp::create(b, (thread() / threads).toI32(), threads);
}
void KernelBuilder::clusterBarrier(int64_t blocks) {
  func->setAttr("nvvm.cluster_dim",
                b.getDenseI32ArrayAttr({int32_t(blocks), 1, 1}));
  simt::ClusterBarrierOp::create(b);
}
void KernelBuilder::storeToFirst(Expr value, const Buffer &buffer,
                                 ArrayRef<Expr> at) {
  simt::StoreToFirstOp::create(b, value, buffer.memref, address(buffer, at));
}
void KernelBuilder::syncWarp() { simt::SyncWarpOp::create(b); }

Expr KernelBuilder::shuffleXor(Expr value, int64_t mask) {
  auto op =
      gpu::ShuffleOp::create(b, value, mask, warpSize, gpu::ShuffleMode::XOR);
  return {b, op.getShuffleResult()};
}

Expr KernelBuilder::shuffleUp(Expr value, int64_t distance) {
  auto op = gpu::ShuffleOp::create(b, value, distance, warpSize,
                                   gpu::ShuffleMode::UP);
  return {b, op.getShuffleResult()};
}

Expr KernelBuilder::ballot(Expr bit) {
  return {b, simt::BallotOp::create(b, b.getI32Type(), bit)};
}
Expr KernelBuilder::popcount(Expr bits) { return bits.unary<math::CtPopOp>(); }
Expr KernelBuilder::sumOfLanes(Expr number) {
  return {b, simt::SumOp::create(b, b.getI32Type(), number)};
}
Expr KernelBuilder::exp2(Expr x) {
  return {b, simt::Exp2Op::create(b, b.getF32Type(), x)};
}
Expr KernelBuilder::log2(Expr x) {
  return {b, simt::Log2Op::create(b, b.getF32Type(), x)};
}
Expr KernelBuilder::sqrt(Expr x) { return x.unary<math::SqrtOp>(); }
