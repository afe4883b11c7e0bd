//===- WarpHelperMath.h - functions of each lane's number ---------------===//
//
// Functions of 32 numbers that are called one by one, or all at once.
// Texts that WarpHelpers.cpp fills in.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_LOWER_WARPHELPERMATH_H
#define KVC_CODEGEN_LOWER_WARPHELPERMATH_H

namespace kvc::text {

/// A function of one number, of each lane's.
inline constexpr const char *map = R"(
func.func private @NAME(%f: !llvm.ptr, %v: vector<32xf32>) -> vector<32xf32> {
  %n1 = llvm.mlir.constant(1 : i32) : i32
  %in = llvm.alloca %n1 x vector<32xf32> {alignment = 64 : i64} : (i32) -> !llvm.ptr
  llvm.store %v, %in {alignment = 64 : i64} : vector<32xf32>, !llvm.ptr
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c32 = arith.constant 32 : i64
  scf.for %l = %c0 to %c32 step %c1 : i64 {
    %q = llvm.getelementptr %in[%l] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %x = llvm.load %q : !llvm.ptr -> f32
    %y = llvm.call %f(%x) : !llvm.ptr, (f32) -> f32
    llvm.store %y, %q : f32, !llvm.ptr
  }
  %result = llvm.load %in {alignment = 64 : i64} : !llvm.ptr -> vector<32xf32>
  return %result : vector<32xf32>
}
)";

/// As emulator/Functions.cpp has it.
inline constexpr const char *exp2Lanes = R"(
func.func private @NAME(%x: vector<32xf32>) -> vector<32xf32> {
  %least = arith.constant dense<-126.0> : vector<32xf32>
  %most = arith.constant dense<128.0> : vector<32xf32>
  %magic = arith.constant dense<12582912.0> : vector<32xf32>
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %infinity = arith.constant dense<0x7F800000> : vector<32xf32>
  %k23 = arith.constant dense<23> : vector<32xi32>
  %c0 = arith.constant dense<0x3F317218> : vector<32xf32>
  %c1 = arith.constant dense<0x3E75FDF0> : vector<32xf32>
  %c2 = arith.constant dense<0x3D6357B6> : vector<32xf32>
  %c3 = arith.constant dense<0x3C1D952A> : vector<32xf32>
  %c4 = arith.constant dense<0x3AAF8448> : vector<32xf32>
  %c5 = arith.constant dense<0x392209C5> : vector<32xf32>
  %one = arith.constant dense<1.0> : vector<32xf32>
  %shifted = arith.addf %x, %magic : vector<32xf32>
  %n = arith.subf %shifted, %magic : vector<32xf32>
  %f = arith.subf %x, %n : vector<32xf32>
  %p4 = math.fma %c5, %f, %c4 : vector<32xf32>
  %p3 = math.fma %p4, %f, %c3 : vector<32xf32>
  %p2 = math.fma %p3, %f, %c2 : vector<32xf32>
  %p1 = math.fma %p2, %f, %c1 : vector<32xf32>
  %p0 = math.fma %p1, %f, %c0 : vector<32xf32>
  %p = math.fma %p0, %f, %one : vector<32xf32>
  %pbits = arith.bitcast %p : vector<32xf32> to vector<32xi32>
  %sbits = arith.bitcast %shifted : vector<32xf32> to vector<32xi32>
  %scale = arith.shli %sbits, %k23 : vector<32xi32>
  %ybits = arith.addi %pbits, %scale : vector<32xi32>
  %y = arith.bitcast %ybits : vector<32xi32> to vector<32xf32>
  %high = arith.cmpf oge, %x, %most : vector<32xf32>
  %y1 = arith.select %high, %infinity, %y : vector<32xi1>, vector<32xf32>
  %low = arith.cmpf olt, %x, %least : vector<32xf32>
  %y2 = arith.select %low, %zero, %y1 : vector<32xi1>, vector<32xf32>
  %nan = arith.cmpf uno, %x, %x : vector<32xf32>
  %y3 = arith.select %nan, %x, %y2 : vector<32xi1>, vector<32xf32>
  return %y3 : vector<32xf32>
}
)";

} // namespace kvc::text

#endif // KVC_CODEGEN_LOWER_WARPHELPERMATH_H
