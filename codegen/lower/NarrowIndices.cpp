//===- NarrowIndices.cpp - kvc-narrow-indices ------------------------------===//
//
// A GPU computes with 32 bits: a sum of 64 takes two instructions, a minimum four. One
// walk in the order of the text finds what range each integer is in, as far as it
// follows from constants, coordinates and arguments, and makes 32 bits of an index that
// fits. What a loop carries may be any number.
//
// In kernels with matrix products it is left as it was written: their loops make
// addresses, which are 64 bits wide and a step apart, and one that is made of 32 bits is
// a product. Where 32 bits were written, their product with a stride is of 32 bits.
//
//===----------------------------------------------------------------------===//

#include "codegen/KernelArgs.h"
#include "codegen/Passes.h"
#include "kvc/artifact.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace kvc {
#define GEN_PASS_DEF_NARROWINDICES
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

/// From `low` to `high`, both included; of 64 bits, signed.
struct Range {
  int64_t low, high;

  static Range any() {
    return {std::numeric_limits<int64_t>::min(),
            std::numeric_limits<int64_t>::max()};
  }
  static Range any32() {
    return {std::numeric_limits<int32_t>::min(),
            std::numeric_limits<int32_t>::max()};
  }
  bool isIn(Range other) const {
    return other.low <= low && high <= other.high;
  }
  bool fits() const { return isIn(any32()); }
  bool isNegative() const { return low < 0; } // may be
  Range with(Range other) const {
    return {std::min(low, other.low), std::max(high, other.high)};
  }
};

/// The range of op(a, b) for an op that neither grows nor falls faster than linearly
/// in each: its extremes are at the ends.
Range atEnds(Range a, Range b,
             int64_t (*overflows)(int64_t, int64_t, int64_t &)) {
  Range result{std::numeric_limits<int64_t>::max(),
               std::numeric_limits<int64_t>::min()};
  for (int64_t x : {a.low, a.high})
    for (int64_t y : {b.low, b.high}) {
      int64_t value;
      if (overflows(x, y, value))
        return Range::any();
      result = result.with({value, value});
    }
  return result;
}

/// The range of an arith op's result from those of its operands.
Range rangeOf(Operation *op, ArrayRef<Range> of) {
  Range all = Range::any();
  bool natural = llvm::none_of(of, [](Range r) { return r.isNegative(); });
  return llvm::TypeSwitch<Operation *, Range>(op)
      .Case([&](arith::AddIOp) {
        return atEnds(of[0], of[1], llvm::AddOverflow<int64_t>);
      })
      .Case([&](arith::SubIOp) {
        return atEnds(of[0], of[1], llvm::SubOverflow<int64_t>);
      })
      .Case([&](arith::MulIOp) {
        return atEnds(of[0], of[1], llvm::MulOverflow<int64_t>);
      })
      .Case([&](arith::MinSIOp) {
        return Range{std::min(of[0].low, of[1].low),
                     std::min(of[0].high, of[1].high)};
      })
      .Case([&](arith::MaxSIOp) {
        return Range{std::max(of[0].low, of[1].low),
                     std::max(of[0].high, of[1].high)};
      })
      .Case([&](arith::MinUIOp) {
        return natural ? Range{std::min(of[0].low, of[1].low),
                               std::min(of[0].high, of[1].high)}
                       : all;
      })
      .Case([&](arith::MaxUIOp) {
        return natural ? Range{std::max(of[0].low, of[1].low),
                               std::max(of[0].high, of[1].high)}
                       : all;
      })
      .Case([&](arith::DivUIOp) {
        return natural ? Range{0, of[0].high / std::max<int64_t>(of[1].low, 1)}
                       : all;
      })
      .Case([&](arith::RemUIOp) {
        return natural
                   ? Range{0, std::min(of[0].high,
                                       std::max<int64_t>(of[1].high, 1) - 1)}
                   : all;
      })
      .Case([&](arith::AndIOp) {
        if (of[0].isNegative() && of[1].isNegative())
          return all;
        if (of[0].isNegative() || of[1].isNegative())
          return Range{0, of[0].isNegative() ? of[1].high : of[0].high};
        return Range{0, std::min(of[0].high, of[1].high)};
      })
      .Case<arith::OrIOp, arith::XOrIOp>([&](Operation *) {
        // No more bits than the longer one has.
        uint64_t most = uint64_t(std::max(of[0].high, of[1].high));
        return natural ? Range{0, int64_t(llvm::NextPowerOf2(most) - 1)} : all;
      })
      .Case([&](arith::ShLIOp) {
        bool small = natural && of[1].high < 32 && of[0].fits();
        return small ? Range{of[0].low << of[1].low, of[0].high << of[1].high}
                     : all;
      })
      .Case([&](arith::ShRUIOp) {
        return natural
                   ? Range{0, of[0].high >> std::min<int64_t>(of[1].low, 63)}
                   : all;
      })
      .Default([&](Operation *) { return all; });
}

/// True where 32 bits of the operands give 32 bits of the result, both in range.
bool isSameIn32(Operation *op, ArrayRef<Range> of) {
  bool natural = llvm::none_of(of, [](Range r) { return r.isNegative(); });
  if (isa<arith::ShLIOp, arith::ShRUIOp>(op))
    return natural && of[1].high < 32;
  if (isa<arith::DivUIOp, arith::RemUIOp, arith::MinUIOp, arith::MaxUIOp>(op))
    return natural;
  return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::MinSIOp,
             arith::MaxSIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
}

/// Of one kernel.
class Narrowing {
public:
  explicit Narrowing(gpu::GPUFuncOp func)
      : func(func), rewriter(func.getContext()),
        asWritten(func.walk([](Operation *op) {
                        return isa<simt::MmaOp, simt::GroupMultiplyOp>(op)
                                   ? WalkResult::interrupt()
                                   : WalkResult::advance();
                      })
                      .wasInterrupted()) {}

  void run() {
    if (auto names = func->getAttrOfType<ArrayAttr>("kvc.args"))
      for (auto [name, arg] : llvm::zip(names, func.getArguments()))
        if (const ArgSpec *spec = findArg(cast<StringAttr>(name).getValue()))
          ranges[arg] = rangeOfKind(spec->kind);
    walk(func.getBody());
  }

private:
  gpu::GPUFuncOp func;
  IRRewriter rewriter;
  /// Nothing is made narrow but factors.
  const bool asWritten;
  llvm::DenseMap<Value, Range> ranges;
  /// The 32 bits of an index.
  llvm::DenseMap<Value, Value> narrow;

  Range known(Value value) const {
    if (auto it = ranges.find(value); it != ranges.end())
      return it->second;
    if (value.getType().isInteger(32))
      return Range::any32();
    return value.getType().isInteger(1) ? Range{0, 1} : Range::any();
  }

  SmallVector<Range> known(ValueRange values) const {
    return llvm::map_to_vector(values, [&](Value v) { return known(v); });
  }

  /// The 32 bits of an index that fits, made behind it.
  Value narrowed(Value index) {
    Value &value = narrow[index];
    if (!value) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointAfterValue(index);
      value = arith::IndexCastOp::create(rewriter, index.getLoc(),
                                         rewriter.getI32Type(), index);
      ranges[value] = known(index);
    }
    return value;
  }

  /// Puts an index made of `value` in the place of `op`, whose number it is.
  void replace(Operation *op, Value value, Range range) {
    auto index = arith::IndexCastOp::create(rewriter, op->getLoc(),
                                            rewriter.getIndexType(), value);
    // Not in one line: what a map has grows, and references into it die.
    ranges[value] = range;
    ranges[index] = range;
    narrow[index] = value;
    forget(op);
    rewriter.replaceOp(op, index);
  }

  /// Of an op that goes: another one may get its place in memory.
  void forget(Operation *op) {
    ranges.erase(op->getResult(0));
    narrow.erase(op->getResult(0));
  }

  void walk(Region &region) {
    for (Block &block : region)
      for (Operation &op : llvm::make_early_inc_range(block)) {
        rewriter.setInsertionPoint(&op);
        visit(&op);
      }
  }

  void visit(Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitLoop(loop);
    for (Region &region : op->getRegions())
      walk(region);
    if (auto choice = dyn_cast<scf::IfOp>(op))
      return visitChoice(choice);
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      return visitCompare(compare);
    if (op->getNumResults() != 1 ||
        !isa<IndexType, IntegerType>(op->getResult(0).getType()))
      return;
    if (auto cast = dyn_cast<arith::IndexCastOp>(op))
      return visitCast(cast);
    if (isa<arith::ArithDialect>(op->getDialect()))
      return visitArithmetic(op);
    if (Range range = rangeOfNumber(op); range.fits())
      ranges[op->getResult(0)] = range;
  }

  /// Of an argument, or of what it points to.
  static Range rangeOfKind(ArgKind kind) {
    switch (kind) {
    case ArgKind::Count:
    case ArgKind::Counts:
      return {0, KVC_MAX_COUNT};
    case ArgKind::Naturals:
      return {0, Range::any32().high};
    case ArgKind::Integers:
    case ArgKind::Stride:
      return Range::any32();
    default:
      return Range::any();
    }
  }

  /// The number of a thread or a block, of bits, or from an argument's memory.
  Range rangeOfNumber(Operation *op) {
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      Value memory = load.getMemRef();
      if (auto view = memory.getDefiningOp<memref::ReinterpretCastOp>())
        memory = view.getSource();
      return ranges.lookup_or(memory, Range::any());
    }
    if (auto thread = dyn_cast<gpu::ThreadIdOp>(op))
      if (auto sizes = func.getKnownBlockSize())
        return {0, (*sizes)[size_t(thread.getDimension())] - 1};
    if (auto block = dyn_cast<gpu::BlockIdOp>(op))
      return {0,
              block.getDimension() == gpu::Dimension::x ? mostBlocks() : 65534};
    if (isa<math::CtPopOp>(op))
      return {0, 32};
    return Range::any();
  }

  /// The greatest number of a block along x: that of a grid of so many blocks, or of a
  /// count that is cut into pieces, or of any grid.
  int64_t mostBlocks() {
    int64_t number = 0;
    if (auto grid = func->getAttrOfType<ArrayAttr>("kvc.grid")) {
      StringRef text = cast<StringAttr>(grid[0]).getValue();
      if (!text.getAsInteger(10, number))
        return number - 1;
      if (text.consume_front("ceildiv(") && text.consume_back(")") &&
          !text.contains('(') &&
          !text.rsplit(',').second.getAsInteger(10, number))
        return llvm::divideCeil(KVC_MAX_COUNT, number) - 1;
    }
    return std::numeric_limits<int32_t>::max() - 1;
  }

  void visitCast(arith::IndexCastOp op) {
    Value in = op.getIn();
    Range range = known(in);
    if (op.getType().isIndex()) {
      ranges[op] = range;
      if (in.getType().isInteger(32))
        narrow[op] = in;
    } else if (op.getType().isInteger(32) && range.fits() &&
               (!asWritten || narrow.contains(in))) {
      Value made = narrowed(in);
      if (made == op)
        return;
      forget(op);
      ranges[made] = range;
      rewriter.replaceOp(op, made);
    }
  }

  void visitArithmetic(Operation *op) {
    Type type = op->getResult(0).getType();
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto number = dyn_cast<IntegerAttr>(constant.getValue());
      if (!number)
        return;
      int64_t value = number.getValue().getSExtValue();
      ranges[constant] = {value, value};
      return;
    }
    if (auto select = dyn_cast<arith::SelectOp>(op))
      return visitSelect(select);
    if (!type.isIndex() && !type.isInteger(32))
      return;
    SmallVector<Range> of = known(op->getOperands());
    Range range = op->getNumOperands() == 2 ? rangeOf(op, of) : Range::any();
    if (type.isInteger(32)) {
      if (range.fits())
        ranges[op->getResult(0)] = range;
      return;
    }
    ranges[op->getResult(0)] = range;
    if (!llvm::all_of(of, [](Range r) { return r.fits(); }))
      return;
    if (isa<arith::MulIOp>(op) && (asWritten || !range.fits()))
      return visitFactors(op);
    if (asWritten || !range.fits() || !isSameIn32(op, of))
      return;
    OperationState state(op->getLoc(), op->getName());
    for (Value operand : op->getOperands())
      state.addOperands(narrowed(operand));
    state.addTypes(rewriter.getI32Type());
    Operation *made = rewriter.create(state);
    // What lies a constant apart stays so in memory.
    if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(made))
      made->setAttr("overflowFlags",
                    arith::IntegerOverflowFlagsAttr::get(
                        op->getContext(), arith::IntegerOverflowFlags::nsw));
    replace(op, made->getResult(0), range);
  }

  /// Shows convert-simt-to-nvvm a product of 32 bits by 32: of two indices that were
  /// made of them, or of one and an argument.
  void visitFactors(Operation *op) {
    auto isNarrow = [](Value v) { return isWidened(v) || isArgument(v); };
    if (!llvm::all_of(op->getOperands(), isNarrow) ||
        llvm::all_of(op->getOperands(), isArgument))
      return;
    for (OpOperand &operand : op->getOpOperands())
      if (!isWidened(operand.get())) {
        Value wide = arith::IndexCastOp::create(rewriter, op->getLoc(),
                                                rewriter.getIndexType(),
                                                narrowed(operand.get()));
        rewriter.modifyOpInPlace(op, [&] { operand.set(wide); });
      }
  }

  static bool isWidened(Value index) {
    auto cast = index.getDefiningOp<arith::IndexCastOp>();
    return cast && cast.getIn().getType().isInteger(32);
  }

  static bool isArgument(Value index) {
    auto cast = index.getDefiningOp<arith::IndexCastOp>();
    return cast && isa<BlockArgument>(cast.getIn()) &&
           cast.getIn().getType().isInteger(64);
  }

  void visitSelect(arith::SelectOp op) {
    Range yes = known(op.getTrueValue()), no = known(op.getFalseValue());
    Range range = yes.with(no);
    ranges[op] = range;
    if (asWritten || !op.getType().isIndex() || !range.fits())
      return;
    Value made = arith::SelectOp::create(
        rewriter, op.getLoc(), op.getCondition(), narrowed(op.getTrueValue()),
        narrowed(op.getFalseValue()));
    replace(op, made, range);
  }

  void visitCompare(arith::CmpIOp op) {
    if (asWritten || !op.getLhs().getType().isIndex() ||
        !known(op.getLhs()).fits() || !known(op.getRhs()).fits())
      return;
    forget(op);
    rewriter.replaceOpWithNewOp<arith::CmpIOp>(
        op, op.getPredicate(), narrowed(op.getLhs()), narrowed(op.getRhs()));
  }

  void visitChoice(scf::IfOp op) {
    if (op.getNumResults() == 0)
      return;
    ValueRange yes = op.thenYield().getOperands(),
               no = op.elseYield().getOperands();
    for (auto [result, a, b] : llvm::zip(op.getResults(), yes, no))
      if (isa<IndexType, IntegerType>(result.getType()))
        ranges[result] = known(a).with(known(b));
  }

  void visitLoop(scf::ForOp op) {
    Range from = known(op.getLowerBound()), to = known(op.getUpperBound()),
          step = known(op.getStep());
    Value number = op.getInductionVar();
    int64_t last =
        std::max(to.high == Range::any().low ? to.high : to.high - 1, from.low);
    Range range{from.low, last};
    // The step behind the last one is computed as well.
    bool fits = !asWritten && number.getType().isIndex() && from.fits() &&
                to.fits() && step.fits() &&
                Range{last + step.high, last + step.high}.fits();
    if (fits) {
      Value bounds[] = {narrowed(op.getLowerBound()),
                        narrowed(op.getUpperBound()), narrowed(op.getStep())};
      rewriter.modifyOpInPlace(op, [&] {
        op.setLowerBound(bounds[0]);
        op.setUpperBound(bounds[1]);
        op.setStep(bounds[2]);
      });
      number.setType(rewriter.getI32Type());
      rewriter.setInsertionPointToStart(op.getBody());
      auto index = arith::IndexCastOp::create(rewriter, op.getLoc(),
                                              rewriter.getIndexType(), number);
      number.replaceAllUsesExcept(index, index);
      narrow[index] = number;
      ranges[index] = range;
    }
    ranges[number] = range;
    walk(op.getRegion());
  }
};

struct NarrowIndicesPass
    : public kvc::impl::NarrowIndicesBase<NarrowIndicesPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<gpu::GPUFuncOp>())
      Narrowing(func).run();
  }
};

} // namespace
