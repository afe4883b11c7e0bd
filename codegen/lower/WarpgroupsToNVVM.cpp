//===- WarpgroupsToNVVM.cpp - products of four warps together -------------===//
//
// A product is one asm statement from its fence to its group's end: between them nothing
// may come that touches its registers. The first step of 16 columns begins with zeros, so
// that the registers are results alone.
//
//===----------------------------------------------------------------------===//

#include "codegen/lower/WarpgroupsToNVVM.h"

#include "codegen/simt/SIMT.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace kvc;

namespace {

/// Columns of a panel; bytes of a panel's row, and of eight of them.
constexpr int64_t panelColumns = 64, rowBytes = 128;

LLVM::InlineAsmOp statement(PatternRewriter &rewriter, Location loc,
                            Type result, ValueRange operands,
                            const std::string &text,
                            const std::string &constraints) {
  return LLVM::InlineAsmOp::create(
      rewriter, loc, result ? TypeRange(result) : TypeRange(), operands, text,
      constraints, /*has_side_effects=*/true, /*is_align_stack=*/false,
      LLVM::tailcallkind::TailCallKind::None, /*asm_dialect=*/{},
      /*operand_attrs=*/{});
}

Type registers(PatternRewriter &rewriter, size_t count) {
  return LLVM::LLVMStructType::getLiteral(
      rewriter.getContext(), SmallVector<Type>(count, rewriter.getF32Type()));
}

SmallVector<Value> split(PatternRewriter &rewriter, Location loc, Value all,
                         size_t count) {
  SmallVector<Value> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(LLVM::ExtractValueOp::create(rewriter, loc, all, i));
  return values;
}

std::string repeated(const std::string &text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i)
    all += (i ? "," : "") + text;
  return all;
}

/// $first,$first+1,...
std::string names(size_t first, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i)
    all += (i ? ",$" : "$") + std::to_string(first + i);
  return all;
}

struct LowerPublish : public OpRewritePattern<simt::PublishOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::PublishOp op,
                                PatternRewriter &rewriter) const override {
    statement(rewriter, op.getLoc(), Type(), {},
              "fence.proxy.async.shared::cta;", "~{memory}");
    rewriter.eraseOp(op);
    return success();
  }
};

struct LowerGroupMultiply : public OpRewritePattern<simt::GroupMultiplyOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Where an element of shared memory is, in bytes.
  static Value addressOf(PatternRewriter &rewriter, Location loc, Value memory,
                         Value index) {
    auto type = cast<MemRefType>(memory.getType());
    Value bytes = arith::ConstantIndexOp::create(
        rewriter, loc, type.getElementTypeBitWidth() / 8);
    Value base =
        memref::ExtractAlignedPointerAsIndexOp::create(rewriter, loc, memory);
    Value at = arith::AddIOp::create(
        rewriter, loc, base,
        arith::MulIOp::create(rewriter, loc, index, bytes));
    return arith::IndexCastOp::create(rewriter, loc, rewriter.getI32Type(), at);
  }

  LogicalResult matchAndRewrite(simt::GroupMultiplyOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    size_t products = op.getProducts().size(), parts = op.getA().size();
    int64_t rows = int64_t(products) * 2, panelBytes = rows * rowBytes;
    bool half = cast<MemRefType>(op.getB().getType()).getElementType().isF16();
    std::string type = half ? "f16" : "bf16";
    // The upper half of a descriptor: eight rows are 1024 bytes behind each other, and
    // pieces exchanged in 128 bytes. The lower one: where the operand begins, and how far
    // its panels are from each other, in 16 bytes.
    std::string text =
        "{\n\t.reg .pred p;\n\t.reg .b32 low, high, at;\n\t.reg .b64 b;\n\t"
        "wgmma.fence.sync.aligned;\n\tmov.b32 high, 0x40000040;\n\t"
        "shr.u32 low, $" +
        std::to_string(products + parts) + ", 4;\n\tor.b32 low, low, " +
        std::to_string(panelBytes / 16 << 16) + ";\n\t";
    for (size_t step = 0; step < parts / 4; ++step) {
      int64_t column = int64_t(step) * 16;
      int64_t at = column / panelColumns * panelBytes +
                   column % panelColumns * rowBytes / panelColumns;
      text += "add.s32 at, low, " + std::to_string(at / 16) +
              ";\n\tmov.b64 b, {at, high};\n\tsetp.ne.b32 p, " +
              std::to_string(step > 0) +
              ", 0;\n\twgmma.mma_async.sync.aligned.m64n" +
              std::to_string(rows) + "k16.f32." + type + "." + type + " {" +
              names(0, products) + "}, {" + names(products + step * 4, 4) +
              "}, b, p, 1, 1, 0;\n\t";
    }
    text += "wgmma.commit_group.sync.aligned;\n\t}";
    SmallVector<Value> operands(op.getA());
    operands.push_back(addressOf(rewriter, loc, op.getB(), op.getIndex()));
    auto result =
        statement(rewriter, loc, registers(rewriter, products), operands, text,
                  repeated("=&f", products) + "," + repeated("r", parts + 1) +
                      ",~{memory}");
    rewriter.replaceOp(op, split(rewriter, loc, result.getResult(0), products));
    return success();
  }
};

struct LowerGroupWait : public OpRewritePattern<simt::GroupWaitOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(simt::GroupWaitOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    statement(rewriter, loc, Type(), {}, "wgmma.wait_group.sync.aligned 0;",
              "~{memory}");
    // Registers are results of a statement behind the wait: what moves them to where the
    // statement has them comes behind it as well.
    size_t count = op.getProducts().size();
    std::string constraints = repeated("=f", count);
    for (size_t i = 0; i < count; ++i)
      constraints += "," + std::to_string(i);
    auto result = statement(rewriter, loc, registers(rewriter, count),
                            op.getProducts(), "", constraints + ",~{memory}");
    rewriter.replaceOp(op, split(rewriter, loc, result.getResult(0), count));
    return success();
  }
};

} // namespace

void kvc::addWarpgroupPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerPublish, LowerGroupMultiply, LowerGroupWait>(
      patterns.getContext());
}
