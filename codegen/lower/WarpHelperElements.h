//===- WarpHelperElements.h - an element for each lane ---------------------===//
//
// Reads, writes and atomics of one element for each lane. @T is its type, @A its bytes.
// Texts that WarpHelpers.cpp fills in.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_LOWER_WARPHELPERELEMENTS_H
#define KVC_CODEGEN_LOWER_WARPHELPERELEMENTS_H

namespace kvc::text {

/// A loop over the active lanes, with `%l` (i64) the lane and `%o` its offset.
inline constexpr const char *eachLane = R"(
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c32 = arith.constant 32 : i64
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  scf.for %l = %c0 to %c32 step %c1 : i64 {
    %l32 = arith.trunci %l : i64 to i32
    %moved = arith.shrui %bits, %l32 : i32
    %bit = arith.andi %moved, %one : i32
    %on = arith.cmpi ne, %bit, %zero : i32
    scf.if %on {
      %op = llvm.getelementptr %table[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %o = llvm.load %op : !llvm.ptr -> i64
      @BODY
    }
  }
)";

/// True where the active lanes, of which there is one at least (@ENOUGH: 0) or that are
/// all (-1), follow each other; lane 0 would be at `%first`.
inline constexpr const char *inARow = R"(
  %all = llvm.load %table {alignment = 64 : i64} : !llvm.ptr -> vector<32xi64>
  %lane32 = math.cttz %bits : i32
  %lane = arith.extui %lane32 : i32 to i64
  %lanep = llvm.getelementptr %table[%lane] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %lane_at = llvm.load %lanep : !llvm.ptr -> i64
  %first = arith.subi %lane_at, %lane : i64
  %firsts = vector.broadcast %first : i64 to vector<32xi64>
  %lanes = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]> : vector<32xi64>
  %row = arith.addi %firsts, %lanes : vector<32xi64>
  %differ = arith.cmpi ne, %row, %all : vector<32xi64>
  %differs = vector.bitcast %differ : vector<32xi1> to vector<1xi32>
  %others = vector.extract %differs[0] : i32 from vector<1xi32>
  %both = arith.andi %others, %bits : i32
  %none = arith.constant 0 : i32
  %follow = arith.cmpi eq, %both, %none : i32
  %least = arith.constant @ENOUGH : i32
  %enough = arith.andi %bits, %least : i32
  %many = arith.cmpi eq, %enough, %least : i32
  %whole = arith.andi %follow, %many : i1
)";

inline constexpr const char *gather = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %bits: i32) -> vector<32x@T> {
  %n1 = llvm.mlir.constant(1 : i32) : i32
  %out = llvm.alloca %n1 x vector<32x@T> {alignment = 64 : i64} : (i32) -> !llvm.ptr
  @INAROW
  %result = scf.if %whole -> vector<32x@T> {
    %p = llvm.getelementptr %base[%first] : (!llvm.ptr, i64) -> !llvm.ptr, @T
    @ROW
    scf.yield %v : vector<32x@T>
  } else {
    @ALLACTIVE
    %v = scf.if %allactive -> vector<32x@T> {
      @LANES
      %each = vector.from_elements @NUMBERS : vector<32x@T>
      scf.yield %each : vector<32x@T>
    } else {
      %nothing = arith.constant dense<0> : vector<32x@T>
      llvm.store %nothing, %out {alignment = 64 : i64} : vector<32x@T>, !llvm.ptr
      @EACHLANE
      %some = llvm.load %out {alignment = 64 : i64} : !llvm.ptr -> vector<32x@T>
      scf.yield %some : vector<32x@T>
    }
    scf.yield %v : vector<32x@T>
  }
  return %result : vector<32x@T>
}
)";
inline constexpr const char *maskedRow = R"(
    %onesplat = vector.broadcast %bits : i32 to vector<1xi32>
    %on = vector.bitcast %onesplat : vector<1xi32> to vector<32xi1>
    %off = arith.constant dense<0> : vector<32x@T>
    %v = llvm.intr.masked.load %p, %on, %off {alignment = @A : i32} : (!llvm.ptr, vector<32xi1>, vector<32x@T>) -> vector<32x@T>
)";
/// There are no masks for bytes and halves.
inline constexpr const char *wholeRow = R"(
    %v = llvm.load %p {alignment = @A : i64} : !llvm.ptr -> vector<32x@T>
)";
/// One of the 32 lanes, all of them active: as most are, and then nothing is asked of each.
inline constexpr const char *gatherLane = R"(
      %t@I = llvm.getelementptr %table[@I] : (!llvm.ptr) -> !llvm.ptr, i64
      %o@I = llvm.load %t@I : !llvm.ptr -> i64
      %p@I = llvm.getelementptr %base[%o@I] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      %x@I = llvm.load %p@I : !llvm.ptr -> @T
)";
inline constexpr const char *scatterLane = R"(
      %t@I = llvm.getelementptr %table[@I] : (!llvm.ptr) -> !llvm.ptr, i64
      %o@I = llvm.load %t@I : !llvm.ptr -> i64
      %p@I = llvm.getelementptr %base[%o@I] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      %x@I = vector.extract %v[@I] : @T from vector<32x@T>
      llvm.store %x@I, %p@I : @T, !llvm.ptr
)";
inline constexpr const char *allActive = R"(
  %every = arith.constant -1 : i32
  %allactive = arith.cmpi eq, %bits, %every : i32
)";
inline constexpr const char *gatherBody = R"(
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      %x = llvm.load %p : !llvm.ptr -> @T
      %q = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      llvm.store %x, %q : @T, !llvm.ptr
)";

/// A lane's own number `%x` of what is handed over, and the place `%p` it goes to.
inline constexpr const char *ownNumber = R"(
      %q = llvm.getelementptr %in[%l] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      %x = llvm.load %q : !llvm.ptr -> @T
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, @T
)";

inline constexpr const char *scatter = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %bits: i32, %v: vector<32x@T>) {
  %n1 = llvm.mlir.constant(1 : i32) : i32
  %in = llvm.alloca %n1 x vector<32x@T> {alignment = 64 : i64} : (i32) -> !llvm.ptr
  @ALLACTIVE
  scf.if %allactive {
    @LANES
  } else {
    llvm.store %v, %in {alignment = 64 : i64} : vector<32x@T>, !llvm.ptr
    @EACHLANE
  }
  return
}
)";
inline constexpr const char *scatterBody = R"(
      @OWN
      llvm.store %x, %p : @T, !llvm.ptr
)";

inline constexpr const char *atomic = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %bits: i32, %v: vector<32x@T>) -> vector<32x@T> {
  %n1 = llvm.mlir.constant(1 : i32) : i32
  %in = llvm.alloca %n1 x vector<32x@T> {alignment = 64 : i64} : (i32) -> !llvm.ptr
  %out = llvm.alloca %n1 x vector<32x@T> {alignment = 64 : i64} : (i32) -> !llvm.ptr
  llvm.store %v, %in {alignment = 64 : i64} : vector<32x@T>, !llvm.ptr
  llvm.store %v, %out {alignment = 64 : i64} : vector<32x@T>, !llvm.ptr
  @EACHLANE
  %result = llvm.load %out {alignment = 64 : i64} : !llvm.ptr -> vector<32x@T>
  return %result : vector<32x@T>
}
)";
inline constexpr const char *atomicBody = R"(
      @OWN
      %old = llvm.atomicrmw @OP %p, %x acq_rel : !llvm.ptr, @T
      %r = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      llvm.store %old, %r : @T, !llvm.ptr
)";
/// Of block memory, which one warp at a time works on.
inline constexpr const char *plainBody = R"(
      @OWN
      %old = llvm.load %p : !llvm.ptr -> @T
      %new = llvm.@OP %old, %x : @T
      llvm.store %new, %p : @T, !llvm.ptr
      %r = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      llvm.store %old, %r : @T, !llvm.ptr
)";

} // namespace kvc::text

#endif // KVC_CODEGEN_LOWER_WARPHELPERELEMENTS_H
