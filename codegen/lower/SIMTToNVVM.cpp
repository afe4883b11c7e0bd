//===- SIMTToNVVM.cpp - convert-simt-to-nvvm ------------------------------===//

#include "codegen/lower/RewriteRoots.h"
#include "codegen/lower/WarpgroupsToNVVM.h"
#include "codegen/Passes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/PatternMatch.h"

namespace kvc {
#define GEN_PASS_DEF_SIMTTONVVM
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

Value intrinsic(OpBuilder &builder, Location loc, StringRef name, Type type,
                ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(builder, loc, type,
                                       builder.getStringAttr(name), operands)
      .getResult(0);
}

struct LowerMma : public OpRewritePattern<simt::MmaOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::MmaOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    bool half = op.getElement().isF16();
    Type f32 = rewriter.getF32Type();
    auto result =
        LLVM::LLVMStructType::getLiteral(getContext(), {f32, f32, f32, f32});
    auto fragment = [&](Value bits) -> Value {
      if (!half)
        return bits;
      auto pair = VectorType::get({2}, rewriter.getF16Type());
      return LLVM::BitcastOp::create(rewriter, loc, pair, bits);
    };
    StringRef name = half ? "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
                          : "llvm.nvvm.mma.m16n8k16.row.col.bf16";
    SmallVector<Value> sums(op.getC());
    for (size_t step = 0; step < op.getB().size() / 2; ++step) {
      SmallVector<Value> operands;
      for (size_t i = 0; i < 4; ++i)
        operands.push_back(fragment(op.getA()[step * 4 + i]));
      for (size_t i = 0; i < 2; ++i)
        operands.push_back(fragment(op.getB()[step * 2 + i]));
      operands.append(sums);
      Value next = intrinsic(rewriter, loc, name, result, operands);
      for (int64_t i = 0; i < 4; ++i)
        sums[i] = LLVM::ExtractValueOp::create(rewriter, loc, next, i);
    }
    rewriter.replaceOp(op, sums);
    return success();
  }
};

/// An op becomes a call of an intrinsic with the same operands.
template <typename Op> struct LowerTo : public OpRewritePattern<Op> {
  LowerTo(MLIRContext *context, StringRef name)
      : OpRewritePattern<Op>(context), name(name) {}
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, intrinsic(rewriter, op.getLoc(), name,
                                     op->getResult(0).getType(),
                                     op->getOperands()));
    return success();
  }
  StringRef name;
};

static Value allLanes(PatternRewriter &rewriter, Location loc) {
  return arith::ConstantIntOp::create(rewriter, loc, -1, 32);
}

/// The same of an op of all lanes, which the intrinsic has as its operand `lanes`.
template <typename Op> struct LowerToOfWarp : public OpRewritePattern<Op> {
  LowerToOfWarp(MLIRContext *context, StringRef name, unsigned lanes)
      : OpRewritePattern<Op>(context), name(name), lanes(lanes) {}
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> operands(op->getOperands());
    operands.insert(operands.begin() + lanes, allLanes(rewriter, op.getLoc()));
    rewriter.replaceOp(op, intrinsic(rewriter, op.getLoc(), name,
                                     op->getResult(0).getType(), operands));
    return success();
  }
  StringRef name;
  unsigned lanes;
};

struct LowerSyncWarp : public OpRewritePattern<simt::SyncWarpOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::SyncWarpOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::SyncWarpOp>(
        op, allLanes(rewriter, op.getLoc()));
    return success();
  }
};

/// The block's barrier is number 0.
struct LowerTeamBarrier : public OpRewritePattern<simt::TeamBarrierOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::TeamBarrierOp op,
                                PatternRewriter &rewriter) const override {
    auto number = [&](int64_t value) {
      return arith::ConstantIntOp::create(rewriter, op.getLoc(), value, 32);
    };
    Value id =
        arith::AddIOp::create(rewriter, op.getLoc(), op.getTeam(), number(1));
    NVVM::BarrierOp::create(rewriter, op.getLoc(), /*resultTypes=*/TypeRange(),
                            id, number(op.getThreads()), /*reductionOp=*/{},
                            /*reductionPredicate=*/Value());
    rewriter.eraseOp(op);
    return success();
  }
};

/// Where a memref has an element. What a sum has on the right is added to the pointer, where
/// LLVM leaves it: places that share what is on the left share its register, and constants are
/// in the instruction. `window` makes another pointer of that to what they share.
static Value pointer(PatternRewriter &rewriter, Location loc, Value memref,
                     Value index, NVVM::NVVMMemorySpace space,
                     llvm::function_ref<Value(Value)> window = nullptr) {
  auto type = cast<MemRefType>(memref.getType());
  Value bytes = arith::ConstantIndexOp::create(
      rewriter, loc, type.getElementTypeBitWidth() / 8);
  auto bytesOf = [&](Value elements) {
    return rewriter.createOrFold<arith::MulIOp>(loc, elements, bytes);
  };
  auto number = [&](Value index) {
    return rewriter.createOrFold<arith::IndexCastOp>(loc, rewriter.getI64Type(),
                                                     index);
  };
  auto sum = index.getDefiningOp<arith::AddIOp>();
  Value base =
      memref::ExtractAlignedPointerAsIndexOp::create(rewriter, loc, memref);
  Value first = arith::AddIOp::create(rewriter, loc, base,
                                      bytesOf(sum ? sum.getLhs() : index));
  Value at = LLVM::IntToPtrOp::create(
      rewriter, loc,
      LLVM::LLVMPointerType::get(rewriter.getContext(), unsigned(space)),
      number(first));
  if (window)
    at = window(at);
  if (!sum)
    return at;
  return LLVM::GEPOp::create(rewriter, loc, at.getType(), rewriter.getI8Type(),
                             at, number(bytesOf(sum.getRhs())));
}

struct LowerAsyncCopy : public OpRewritePattern<simt::AsyncCopyOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(simt::AsyncCopyOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<MemRefType>(op.getFrom().getType());
    int64_t bytes = op.getCount() * type.getElementTypeBitWidth() / 8;
    Value to = pointer(rewriter, loc, op.getTo(), op.getToIndex(),
                       NVVM::NVVMMemorySpace::Shared);
    Value from = pointer(rewriter, loc, op.getFrom(), op.getFromIndex(),
                         NVVM::NVVMMemorySpace::Global);
    // Only 16 bytes can go past L1, which nobody reads it from again.
    auto cached = bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                              : NVVM::LoadCacheModifierKind::CA;
    NVVM::CpAsyncOp::create(rewriter, loc, to, from, uint32_t(bytes), cached,
                            /*cpSize=*/Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct LowerClusterBarrier : public OpRewritePattern<simt::ClusterBarrierOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::ClusterBarrierOp op,
                                PatternRewriter &rewriter) const override {
    NVVM::ClusterArriveOp::create(rewriter, op.getLoc(),
                                  rewriter.getUnitAttr());
    NVVM::ClusterWaitOp::create(rewriter, op.getLoc(), rewriter.getUnitAttr());
    rewriter.eraseOp(op);
    return success();
  }
};

struct LowerStoreToFirst : public OpRewritePattern<simt::StoreToFirstOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::StoreToFirstOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto ofFirst = [&](Value own) -> Value {
      auto type = LLVM::LLVMPointerType::get(
          rewriter.getContext(),
          unsigned(NVVM::NVVMMemorySpace::SharedCluster));
      Value first = arith::ConstantIntOp::create(rewriter, loc, 0, 32);
      return NVVM::MapaOp::create(rewriter, loc, type, own, first);
    };
    Value there = pointer(rewriter, loc, op.getMemory(), op.getIndex(),
                          NVVM::NVVMMemorySpace::Shared, ofFirst);
    LLVM::StoreOp::create(rewriter, loc, op.getValue(), there);
    rewriter.eraseOp(op);
    return success();
  }
};

struct LowerAsyncCommit : public OpRewritePattern<simt::AsyncCommitOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::AsyncCommitOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncCommitGroupOp>(op);
    return success();
  }
};

struct LowerAsyncWait : public OpRewritePattern<simt::AsyncWaitOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::AsyncWaitOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncWaitGroupOp>(op, op.getPending());
    return success();
  }
};

/// The 32 bits that an index is made of; null: there may be more.
Value narrowOf(Value index) {
  auto cast = index.getDefiningOp<arith::IndexCastOp>();
  bool narrow = cast && cast.getIn().getType().isInteger(32);
  return narrow ? cast.getIn() : Value();
}

/// A product of two numbers of 32 bits, and a sum with one. LLVM looks for them in one
/// block alone, where a stride, say, was made 64 bits wide in front of a loop: four
/// instructions instead of one.
struct LowerWideProduct : public OpRewritePattern<arith::AddIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AddIOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isIndex())
      return failure();
    for (auto [side, other] : {std::pair{op.getLhs(), op.getRhs()},
                               std::pair{op.getRhs(), op.getLhs()}}) {
      auto product = side.getDefiningOp<arith::MulIOp>();
      if (!product || !product->hasOneUse())
        continue;
      Value a = narrowOf(product.getLhs()), b = narrowOf(product.getRhs());
      if (!a || !b)
        continue;
      Location loc = op.getLoc();
      Type i64 = rewriter.getI64Type();
      Value c = arith::IndexCastOp::create(rewriter, loc, i64, other);
      auto sum = LLVM::InlineAsmOp::create(
          rewriter, loc, i64, ValueRange{a, b, c},
          "mad.wide.s32 $0, $1, $2, $3;", "=l,r,r,l",
          /*has_side_effects=*/false, /*is_align_stack=*/false,
          LLVM::tailcallkind::TailCallKind::None, /*asm_dialect=*/{},
          /*operand_attrs=*/{});
      rewriter.replaceOpWithNewOp<arith::IndexCastOp>(op, op.getType(),
                                                      sum.getResult(0));
      return success();
    }
    return failure();
  }
};

struct SIMTToNVVMPass : public kvc::impl::SIMTToNVVMBase<SIMTToNVVMPass> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<LowerMma, LowerSyncWarp, LowerTeamBarrier, LowerAsyncCopy,
                 LowerAsyncCommit, LowerAsyncWait, LowerWideProduct,
                 LowerClusterBarrier, LowerStoreToFirst>(context);
    addWarpgroupPatterns(patterns);
    patterns.add<LowerToOfWarp<simt::BallotOp>>(
        context, "llvm.nvvm.vote.ballot.sync", /*lanes=*/0);
    patterns.add<LowerToOfWarp<simt::SumOp>>(
        context, "llvm.nvvm.redux.sync.add", /*lanes=*/1);
    patterns.add<LowerTo<simt::Exp2Op>>(context,
                                        "llvm.nvvm.ex2.approx.ftz.f32");
    patterns.add<LowerTo<simt::Log2Op>>(context, "llvm.nvvm.lg2.approx.f");
    // Exact on the device; as math ops they would be sent to libdevice.
    patterns.add<LowerTo<math::SqrtOp>>(context, "llvm.sqrt.f32");
    patterns.add<LowerTo<math::AbsFOp>>(context, "llvm.nvvm.fabs.f32");
    patterns.add<LowerTo<math::FloorOp>>(context, "llvm.floor.f32");
    patterns.add<LowerTo<math::CeilOp>>(context, "llvm.ceil.f32");
    patterns.add<LowerTo<math::RoundEvenOp>>(context, "llvm.roundeven.f32");
    patterns.add<LowerTo<math::FmaOp>>(context, "llvm.fma.f32");
    patterns.add<LowerTo<math::CopySignOp>>(context, "llvm.copysign.f32");
    patterns.add<LowerTo<math::CtPopOp>>(context, "llvm.ctpop.i32");
    if (failed(rewriteRoots(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
