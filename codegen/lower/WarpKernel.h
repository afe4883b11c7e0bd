//===- WarpKernel.h - a kernel as the code of a warp -----------------------===//
//
// Builds, beside a gpu.func, the function that runs it for a warp: what is the same in
// all lanes stays a scalar, the rest is vectors of 32. docs/host.md has the rules.
//
//   WarpVectors.cpp     the pass
//   WarpFunction.cpp    the function, op by op; branches and loops, under masks where
//                       lanes part
//   WarpArithmetic.cpp  ops on the lanes' values
//   WarpWide.cpp        those on 64 bits that are called
//   WarpTogether.cpp    what the lanes do together
//   WarpMemory.cpp      reads and writes
//   WarpOwn.cpp         those of memory that each lane has for itself
//   WarpHelpers.cpp     functions that are called rather than written out
//   WarpKernel.cpp      what the lanes have of a value, and which of them are active
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_LOWER_WARPKERNEL_H
#define KVC_CODEGEN_LOWER_WARPKERNEL_H

#include "codegen/lower/HostFrame.h"
#include "codegen/lower/Uniformity.h"
#include "codegen/simt/SIMT.h"
#include "kvc/simt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cstddef>

namespace kvc {

/// A value of the kernel in all lanes: base + stride * lane + vector, or with limits
/// base + min(max(lane, low), high). Of numbers that are no integers, and of those that are
/// uniform, there is one part only.
struct Lanes {
  mlir::Value base; // a scalar; null: 0
  int64_t stride = 0;
  mlir::Value vector;    // null: 0
  mlir::Value low, high; // i32, 0 to 31; both or none
  bool isLimited() const { return bool(high); }
  /// Of a value that is itself a vector and differs by lane: 32 lanes of each of its
  /// words of 32 bits.
  llvm::SmallVector<mlir::Value> words;

  // Where it became known, and what has been made of it there.
  mlir::Block *block = nullptr;
  mlir::Operation *after = nullptr; // null: the block's begin
  mlir::Value full, offsets;
};

class WarpKernel : HostFrame {
public:
  WarpKernel(mlir::gpu::GPUFuncOp kernel, mlir::ModuleOp module,
             mlir::ImplicitLocOpBuilder &builder)
      : HostFrame(builder), kernel(kernel), module(module), forms(kernel) {}

  /// Builds the function `name`, for the attribute kvc.warp_of of which the emitter
  /// looks. Fails at an op that has no form for a warp, which is in `unknown` then; the
  /// function must be erased by the caller.
  mlir::LogicalResult build(mlir::StringRef name);

  mlir::func::FuncOp func;
  mlir::Operation *unknown = nullptr;
  const char *reason = nullptr;
  /// What was built, for the remark.
  struct Counts {
    unsigned uniform = 0, linear = 0, varying = 0, masked = 0, contiguous = 0,
             scattered = 0;
  } counts;

private:
  mlir::gpu::GPUFuncOp kernel;
  mlir::ModuleOp module;
  Uniformity forms;
  llvm::DenseMap<mlir::Value, Lanes> values;
  llvm::DenseMap<mlir::Value, mlir::Value> addresses, tables;
  /// A vector and what is added to it for each lane.
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> offsetSums;
  /// Sums of two vectors that a block has: addresses whose bases alone differ have the
  /// same lanes, and one table.
  llvm::DenseMap<std::tuple<mlir::Block *, mlir::Value, mlir::Value>,
                 mlir::Value>
      vectorSums;
  llvm::DenseMap<std::pair<int64_t, int>, mlir::Value> scratches;
  /// Registers of a matrix product that lie in memory: sums, and a side widened.
  struct Fragment {
    llvm::SmallVector<mlir::Value> registers;
    mlir::Value memory;
  };
  struct Sides {
    int64_t entry, wordsOfStep; // of kvc_simt_ops; of a fragment
    int firstUse;               // of scratch memory
    llvm::SmallVector<Fragment> own, held = {}; // this block's; of blocks around
  };
  llvm::SmallVector<Fragment> sums; // this block's
  Sides lefts{offsetof(kvc_simt_ops, warp_left), 128, 1 << 16, {}},
      rights{offsetof(kvc_simt_ops, warp_right), 64, 1 << 17, {}};
  mlir::Value shared;
  bool barriers = false;
  /// Which lanes are active; both null where all are.
  mlir::Value maskVector, maskBits;

  mlir::LogicalResult fail(mlir::Operation *op, const char *why) {
    unknown = op;
    reason = why;
    return mlir::failure();
  }

  //===--- types and constants (WarpKernel.cpp) ---------------------------===//
  mlir::Type scalarOf(mlir::Type type);
  mlir::Type elementOf(mlir::Type type);
  mlir::VectorType lanesOf(mlir::Type type);
  mlir::Value number(mlir::Type type, int64_t n);
  mlir::Value zeros(mlir::VectorType type);
  /// stride * lane.
  mlir::Value iota(mlir::Type element, int64_t stride);
  mlir::Value splat(mlir::Value scalar);

  //===--- values (WarpKernel.cpp) ----------------------------------------===//
  void define(mlir::Value value, Lanes lanes);
  void defineScalar(mlir::Value value, mlir::Value scalar);
  void defineVector(mlir::Value value, mlir::Value vector);
  bool isUniform(mlir::Value value) const {
    return forms.of(value).isUniform();
  }
  /// The base of what is uniform or linear.
  mlir::Value base(mlir::Value value);
  mlir::Value baseOf(Lanes &lanes, mlir::Type type);
  /// The value as 32 numbers.
  mlir::Value vector(mlir::Value value);
  mlir::Value vectorOf(Lanes &lanes, mlir::Type type);
  llvm::SmallVector<mlir::Value> wordsOf(mlir::Value value);
  void insertWhereKnown(const Lanes &lanes);
  /// The lanes' numbers within their limits, as words.
  mlir::Value laneWords(const Lanes &lanes);
  /// The lanes' numbers within their limits.
  mlir::Value limited(const Lanes &lanes, mlir::Type element);
  mlir::Value resized(mlir::Value value, mlir::Type type, bool isSigned);
  mlir::Value bitsOf(mlir::Value mask);
  mlir::Value masked(mlir::Value condition);
  mlir::Value activeBits();

  //===--- ops (WarpArithmetic.cpp) ----------------------------------------===//
  mlir::LogicalResult elementwise(mlir::Operation &op);
  bool sum(mlir::Operation &op);
  bool compare(mlir::arith::CmpIOp op);
  /// Null where one is not a base and a lane.
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, Lanes &x, Lanes &y);
  bool clamp(mlir::Operation &op);
  mlir::Value clamped(mlir::Value number, int64_t low, int64_t high);
  /// True for a base and the lane's number, within limits or not.
  static bool isBaseAndLane(const Lanes &lanes) {
    return !lanes.vector && lanes.stride == 1;
  }
  static bool isBase(const Lanes &lanes) {
    return !lanes.vector && !lanes.stride && lanes.words.empty();
  }
  bool product(mlir::Operation &op);
  bool quotient(mlir::Operation &op);
  void cast(mlir::Operation &op);
  void element(mlir::vector::ExtractOp op);
  /// True for ops that are calls of functions (WarpWide.cpp).
  bool isWide(mlir::Operation &op);
  /// Such an op of 32 lanes and of 32 lanes or a scalar.
  mlir::Value wide(mlir::Operation &op, mlir::Value x, mlir::Value y);

  //===--- the function (WarpFunction.cpp) --------------------------------===//
  mlir::LogicalResult translate(mlir::Block &block);
  mlir::LogicalResult translate(mlir::Operation &op);
  mlir::LogicalResult branch(mlir::scf::IfOp op);
  mlir::LogicalResult divergent(mlir::scf::IfOp op);
  mlir::LogicalResult loop(mlir::scf::ForOp op);
  mlir::LogicalResult divergent(mlir::scf::ForOp op);
  llvm::SmallVector<mlir::Value> pack(mlir::ValueRange values,
                                      mlir::ValueRange like);
  void unpack(mlir::ValueRange values, mlir::ValueRange parts);

  //===--- memory (WarpMemory.cpp) ----------------------------------------===//
  mlir::Value element(mlir::Value memref, mlir::Value index);
  mlir::Value indexBase(mlir::Value memref, mlir::OperandRange indices);
  /// Memory with the offset of each lane's element from the address of the base.
  mlir::Value table(mlir::OperandRange indices);
  mlir::Value scratch(int64_t bytes, int use);
  bool isContiguous(mlir::OperandRange indices, int64_t stride = 1);
  bool isUniform(mlir::OperandRange indices) const;
  void load(mlir::memref::LoadOp op);
  void store(mlir::memref::StoreOp op);
  void load(mlir::vector::LoadOp op);
  void store(mlir::vector::StoreOp op);
  void copy(simt::AsyncCopyOp op);
  void prefetch(mlir::memref::PrefetchOp op);
  mlir::LogicalResult atomic(mlir::memref::AtomicRMWOp op);

  //===--- memory of each lane (WarpOwn.cpp) -------------------------------===//
  mlir::LogicalResult allocate(mlir::memref::AllocaOp op);
  mlir::LogicalResult loadOwn(mlir::memref::LoadOp op);
  mlir::LogicalResult storeOwn(mlir::memref::StoreOp op);
  /// Where 32 lanes have an element each.
  mlir::Value ownElement(mlir::Value memref, mlir::OperandRange indices);

  //===--- lanes together (WarpTogether.cpp) ------------------------------===//
  mlir::LogicalResult shuffle(mlir::gpu::ShuffleOp op);
  void multiply(simt::MmaOp op);
  Fragment &newSums();
  Fragment &sumsOf(mlir::ValueRange registers);
  mlir::Value widened(mlir::ValueRange registers, Sides &sides, bool isBF16);
  void function(mlir::Operation &op, int64_t entry);

  /// Calls a function of WarpHelpers.cpp, which is put into the module with it.
  mlir::Value helper(mlir::StringRef name, mlir::ValueRange operands);
};

/// Puts the function `name` into `module` unless it is there.
mlir::func::FuncOp warpHelper(mlir::ModuleOp module, mlir::StringRef name);

} // namespace kvc

#endif // KVC_CODEGEN_LOWER_WARPKERNEL_H
