//===- GPUToHost.cpp - convert-gpu-to-host --------------------------------===//
//
// One gpu.func becomes one function that a fiber runs for each thread. Offsets
// into the thread's context and its table are those of kvc/simt.h.
//
//===----------------------------------------------------------------------===//

#include "codegen/lower/HostFrame.h"
#include "codegen/lower/RewriteRoots.h"
#include "codegen/Passes.h"
#include "kvc/simt.h"

#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/AttrTypeSubElements.h"

#include <cstddef>

namespace kvc {
#define GEN_PASS_DEF_GPUTOHOST
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

//===----------------------------------------------------------------------===//
// Half precision without library calls
//===----------------------------------------------------------------------===//

/// `element`, or as many of it as `like` has.
static Type typeLike(Type like, Type element) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? VectorType::get(vector.getShape(), element) : element;
}

static Value constantLike(ImplicitLocOpBuilder &b, Type like,
                          TypedAttr number) {
  auto vector = dyn_cast<VectorType>(typeLike(like, number.getType()));
  return arith::ConstantOp::create(
      b, vector ? TypedAttr(DenseElementsAttr::get(vector, number)) : number);
}

static bool isOf(Type type, bool (Type::*is)() const) {
  return (getElementTypeOrSelf(type).*is)();
}

/// f16 -> f32 by bits: widen the exponent, then scale to restore the bias; the
/// multiplication makes subnormals right.
struct ExpandExtF16 : public OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    Type f32 = op.getType();
    if (!isOf(op.getIn().getType(), &Type::isF16) || !isOf(f32, &Type::isF32))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type i32 = typeLike(f32, b.getI32Type());
    auto constant = [&](int64_t n) -> Value {
      return constantLike(b, f32, b.getI32IntegerAttr(int32_t(n)));
    };
    Value half = arith::ExtUIOp::create(
        b, i32,
        arith::BitcastOp::create(b, typeLike(f32, b.getI16Type()), op.getIn()));
    Value magnitude = arith::ShLIOp::create(
        b, arith::AndIOp::create(b, half, constant(0x7fff)), constant(13));
    Value sign = arith::ShLIOp::create(
        b, arith::AndIOp::create(b, half, constant(0x8000)), constant(16));
    Value scale =
        constantLike(b, f32, b.getF32FloatAttr(float(std::ldexp(1.0, 112))));
    Value scaled = arith::BitcastOp::create(
        b, i32,
        arith::MulFOp::create(b, arith::BitcastOp::create(b, f32, magnitude),
                              scale));
    Value special = arith::CmpIOp::create(b, arith::CmpIPredicate::uge,
                                          magnitude, constant(0x7c00 << 13));
    Value bits = arith::SelectOp::create(
        b, special, arith::OrIOp::create(b, magnitude, constant(0x7f800000)),
        scaled);
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(
        op, f32, arith::OrIOp::create(b, bits, sign));
    return success();
  }
};

/// bf16 -> f32 by bits, taken where the number is loaded: a bf16 that goes from one
/// block to another, LLVM would round there, by a function of a library.
struct ExpandExtBF16 : public OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    if (!isOf(op.getIn().getType(), &Type::isBF16) ||
        !isOf(op.getType(), &Type::isF32))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type i16 = b.getI16Type(), i32 = typeLike(op.getType(), b.getI32Type());
    Value from = op.getIn(), bits;
    auto element = from.getDefiningOp<vector::ExtractOp>();
    if (element && !element.hasDynamicPosition() &&
        element.getStaticPosition().size() == 1) {
      Value all = element.getSource();
      int64_t count = cast<VectorType>(all.getType()).getDimSize(0);
      b.setInsertionPointAfterValue(all);
      Value words =
          vector::BitCastOp::create(b, VectorType::get(count, i16), all);
      bits = vector::ExtractOp::create(b, words,
                                       element.getStaticPosition().front());
    } else {
      b.setInsertionPointAfterValue(from);
      bits = arith::BitcastOp::create(b, typeLike(op.getType(), i16), from);
    }
    b.setInsertionPoint(op);
    Value high = arith::ShLIOp::create(
        b, arith::ExtUIOp::create(b, i32, bits),
        constantLike(b, op.getType(), b.getI32IntegerAttr(16)));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), high);
    return success();
  }
};

/// f32 -> f16, to nearest even. Adding a number whose unit in the last place is
/// that of the result lets the addition round.
struct ExpandTruncF16 : public OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Type f32 = op.getIn().getType();
    if (!isOf(op.getType(), &Type::isF16) || !isOf(f32, &Type::isF32))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type i32 = typeLike(f32, b.getI32Type());
    auto constant = [&](int64_t n) -> Value {
      return constantLike(b, f32, b.getI32IntegerAttr(int32_t(n)));
    };
    Value bits = arith::BitcastOp::create(b, i32, op.getIn());
    Value sign = arith::AndIOp::create(b, bits, constant(INT32_MIN));
    Value magnitude = arith::XOrIOp::create(b, bits, sign);
    // Normal numbers: add half a unit, minus one if the last bit is even.
    Value odd = arith::AndIOp::create(
        b, arith::ShRUIOp::create(b, magnitude, constant(13)), constant(1));
    Value rounded =
        arith::AddIOp::create(b, arith::AddIOp::create(b, magnitude, odd),
                              constant(0xfff - (int64_t(112) << 23)));
    Value normal = arith::ShRUIOp::create(b, rounded, constant(13));
    // Subnormal results: let an addition at the right scale round.
    Value magic = constantLike(b, f32, b.getF32FloatAttr(0.5));
    Value shifted = arith::AddFOp::create(
        b, arith::BitcastOp::create(b, f32, magnitude), magic);
    Value subnormal = arith::SubIOp::create(
        b, arith::BitcastOp::create(b, i32, shifted), constant(0x3f000000));
    auto below = [&](int64_t limit) -> Value {
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, magnitude,
                                   constant(limit));
    };
    Value finite =
        arith::SelectOp::create(b, below(113 << 23), subnormal, normal);
    // 65520 and above round to infinity; NaN stays NaN.
    Value nan = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, magnitude,
                                      constant(0x7f800000));
    Value special =
        arith::SelectOp::create(b, nan, constant(0x7e00), constant(0x7c00));
    Value half = arith::SelectOp::create(b, below(0x477ff000), finite, special);
    half = arith::OrIOp::create(b, half,
                                arith::ShRUIOp::create(b, sign, constant(16)));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(
        op, op.getType(),
        arith::TruncIOp::create(b, typeLike(f32, b.getI16Type()), half));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

class HostKernel : HostFrame {
public:
  HostKernel(gpu::GPUFuncOp kernel, ImplicitLocOpBuilder &builder)
      : HostFrame(builder), kernel(kernel) {}

  void convert() {
    auto func = func::FuncOp::create(b, kernel.getName(),
                                     b.getFunctionType({pointer, pointer}, {}));
    func.getBody().takeBody(kernel.getBody());
    Block &entry = func.getBody().front();
    unsigned arguments = kernel.getFunctionType().getNumInputs();
    context = entry.insertArgument(0u, pointer, b.getLoc());
    Value args = entry.insertArgument(1u, pointer, b.getLoc());
    b.setInsertionPointToStart(&entry);
    for (unsigned i = 0; i < arguments; ++i)
      replaceArgument(entry.getArgument(2 + i), args, i);
    Value shared = field(pointer, offsetof(kvc_simt_thread, shared));
    int64_t bytes = placeShared(
        entry.getArguments().drop_front(2 + arguments),
        [&](BlockArgument memory, int64_t offset) {
          memory.replaceAllUsesWith(
              memoryAt(cast<MemRefType>(memory.getType()), at(shared, offset)));
        });
    entry.eraseArguments(2, entry.getNumArguments() - 2);
    func->setAttr("kvc.shared_bytes", b.getI64IntegerAttr(bytes));
    func.walk([&](Operation *op) { replace(op); });
  }

private:
  gpu::GPUFuncOp kernel;

  /// A memref of static shape at an address.
  Value memoryAt(MemRefType type, Value address) {
    LLVMTypeConverter converter(b.getContext());
    Value descriptor = MemRefDescriptor::fromStaticShape(
        b, b.getLoc(), converter, type, address);
    return UnrealizedConversionCastOp::create(b, type, descriptor).getResult(0);
  }

  void replaceArgument(BlockArgument value, Value args, unsigned index) {
    auto memref = dyn_cast<MemRefType>(value.getType());
    Value slot = argument(args, index, value.getType());
    value.replaceAllUsesWith(memref ? memoryAt(memref, slot) : slot);
  }

  Value coordinate(int64_t offset) {
    Value value = field(b.getI32Type(), offset);
    return arith::IndexCastUIOp::create(b, b.getIndexType(), value);
  }

  void replace(Operation *op) {
    b.setInsertionPoint(op);
    b.setLoc(op->getLoc());
    Type i32 = b.getI32Type(), f32 = b.getF32Type();
    if (isa<gpu::ThreadIdOp>(op))
      return finish(op, coordinate(offsetof(kvc_simt_thread, thread)));
    if (auto id = dyn_cast<gpu::BlockIdOp>(op))
      return finish(op, coordinate(offsetof(kvc_simt_thread, block) +
                                   4 * int64_t(id.getDimension())));
    if (isa<gpu::ReturnOp>(op)) {
      func::ReturnOp::create(b);
      return op->erase();
    }
    if (isa<gpu::BarrierOp, simt::TeamBarrierOp>(op)) {
      call(offsetof(kvc_simt_ops, barrier), {}, {});
      return op->erase();
    }
    if (isa<simt::SyncWarpOp>(op)) {
      call(offsetof(kvc_simt_ops, sync_warp), {}, {});
      return op->erase();
    }
    if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op))
      return replaceShuffle(shuffle);
    if (auto ballot = dyn_cast<simt::BallotOp>(op)) {
      Value bit = arith::ExtUIOp::create(b, i32, ballot.getBit());
      return finish(op, call(offsetof(kvc_simt_ops, ballot), i32, bit));
    }
    if (auto sum = dyn_cast<simt::SumOp>(op))
      return finish(op, sumOfLanes(sum.getNumber()));
    if (auto exp = dyn_cast<simt::Exp2Op>(op))
      return finish(op, call(offsetof(kvc_simt_ops, exp2), f32, exp.getX(),
                             /*withContext=*/false));
    if (auto log = dyn_cast<simt::Log2Op>(op))
      return finish(op, call(offsetof(kvc_simt_ops, log2), f32, log.getX(),
                             /*withContext=*/false));
    if (auto mma = dyn_cast<simt::MmaOp>(op))
      return replaceMma(mma);
    // Copies are there at once: whether somebody waits is the PTX machine's to
    // see.
    if (auto copy = dyn_cast<simt::AsyncCopyOp>(op)) {
      auto type = VectorType::get(
          {int64_t(copy.getCount())},
          cast<MemRefType>(copy.getFrom().getType()).getElementType());
      Value moved =
          vector::LoadOp::create(b, type, copy.getFrom(), copy.getFromIndex());
      vector::StoreOp::create(b, moved, copy.getTo(), copy.getToIndex());
      return op->erase();
    }
    if (isa<simt::AsyncCommitOp, simt::AsyncWaitOp>(op))
      op->erase();
  }

  void finish(Operation *op, Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }

  Value sumOfLanes(Value number) {
    Type i32 = b.getI32Type();
    for (int64_t mask = warpSize / 2; mask; mask /= 2) {
      Value distance = arith::ConstantIntOp::create(b, mask, 32);
      Value other =
          call(offsetof(kvc_simt_ops, shuffle_xor), i32, {number, distance});
      number = arith::AddIOp::create(b, number, other);
    }
    return number;
  }

  void replaceShuffle(gpu::ShuffleOp op) {
    Type i32 = b.getI32Type(), type = op.getValue().getType();
    Value bits = type.isF32() ? arith::BitcastOp::create(b, i32, op.getValue())
                              : op.getValue();
    int64_t entry = op.getMode() == gpu::ShuffleMode::XOR
                        ? offsetof(kvc_simt_ops, shuffle_xor)
                        : offsetof(kvc_simt_ops, shuffle_up);
    Value result = call(entry, i32, {bits, op.getOffset()});
    if (type.isF32())
      result = arith::BitcastOp::create(b, type, result);
    op.getShuffleResult().replaceAllUsesWith(result);
    op->erase();
  }

  /// Fragments are passed through memory of the thread's stack.
  void replaceMma(simt::MmaOp op) {
    auto spill = [&](ValueRange values, Type type) {
      Value memory;
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(
            &op->getParentOfType<func::FuncOp>().getBody().front());
        Value size = LLVM::ConstantOp::create(
            b, b.getI32Type(), b.getI32IntegerAttr(values.size()));
        memory = LLVM::AllocaOp::create(b, pointer, type, size);
      }
      for (auto [i, value] : llvm::enumerate(values))
        LLVM::StoreOp::create(b, value, at(memory, i * 4));
      return memory;
    };
    Type i32 = b.getI32Type(), f32 = b.getF32Type();
    Value a = spill(op.getA(), i32), bFragment = spill(op.getB(), i32);
    Value c = spill(op.getC(), f32);
    auto number = [&](int64_t n) -> Value {
      return arith::ConstantIntOp::create(b, n, 32);
    };
    call(offsetof(kvc_simt_ops, mma), {},
         {a, bFragment, c, number(op.getB().size() / 2),
          number(op.getElement().isBF16())});
    for (auto [i, result] : llvm::enumerate(op.getResults()))
      result.replaceAllUsesWith(
          LLVM::LoadOp::create(b, f32, at(c, i * 4)).getResult());
    op->erase();
  }
};

struct GPUToHostPass : public kvc::impl::GPUToHostBase<GPUToHostPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    AttrTypeReplacer spaces;
    spaces.addReplacement([](MemRefType type) -> std::optional<Type> {
      return MemRefType::get(type.getShape(), type.getElementType(),
                             type.getLayout());
    });
    for (auto target :
         llvm::make_early_inc_range(module.getOps<gpu::GPUModuleOp>())) {
      spaces.recursivelyReplaceElementsIn(target, /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
      for (auto kernel :
           llvm::make_early_inc_range(target.getOps<gpu::GPUFuncOp>())) {
        ImplicitLocOpBuilder builder(kernel.getLoc(), kernel);
        builder.setInsertionPointToEnd(module.getBody());
        HostKernel(kernel, builder).convert();
        kernel.erase();
      }
      target.erase();
    }
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandExtF16, ExpandTruncF16>(&getContext());
    patterns.add<ExpandExtBF16>(&getContext(), /*benefit=*/2);
    arith::populateExpandBFloat16Patterns(patterns);
    if (failed(rewriteRoots(module, std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
