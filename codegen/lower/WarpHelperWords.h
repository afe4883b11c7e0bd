//===- WarpHelperWords.h - words for each lane ----------------------------===//
//
// Reads, writes and copies of @N words of 32 bits for each lane, whose offsets are in
// elements of @E bits. Words of all lanes lie beside one another in memory of the warp.
// Texts that WarpHelpers.cpp fills in.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_LOWER_WARPHELPERWORDS_H
#define KVC_CODEGEN_LOWER_WARPHELPERWORDS_H

namespace kvc::text {

/// Some words of each lane. `%out` has 32 of each; of the other side each lane's are in a
/// row. Offsets are bytes / @E.
inline constexpr const char *readWords = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %bits: i32, %out: !llvm.ptr) {
  @EACHLANE
  return
}
)";
inline constexpr const char *readWordsBody = R"(
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
      %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<@Nxi32>
      @WORDS
)";
inline constexpr const char *readWord = R"(
      %x@I = vector.extract %x[@I] : i32 from vector<@Nxi32>
      %q@I = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      %r@I = llvm.getelementptr %q@I[@B] : (!llvm.ptr) -> !llvm.ptr, i8
      llvm.store %x@I, %r@I : i32, !llvm.ptr
)";
inline constexpr const char *writeWordsBody = R"(
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
      @WORDS
)";
inline constexpr const char *writeWord = R"(
      %q@I = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      %r@I = llvm.getelementptr %q@I[@B] : (!llvm.ptr) -> !llvm.ptr, i8
      %x@I = llvm.load %r@I : !llvm.ptr -> i32
      %s@I = llvm.getelementptr %p[@C] : (!llvm.ptr) -> !llvm.ptr, i8
      llvm.store %x@I, %s@I : i32, !llvm.ptr
)";

/// All lanes active, four words: sixteen words of four lanes at a time are turned, from
/// `%x` to `%y`.
inline constexpr const char *fourLanes = R"(
  %c0 = arith.constant 0 : i64
  %c4 = arith.constant 4 : i64
  %c32 = arith.constant 32 : i64
  scf.for %l = %c0 to %c32 step %c4 : i64 {
    %t = llvm.getelementptr %table[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %q = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i32
    @FROM
    %ab = vector.shuffle %x0, %x1 [0, 4, 1, 5] : vector<4xi32>, vector<4xi32>
    %cd = vector.shuffle %x2, %x3 [0, 4, 1, 5] : vector<4xi32>, vector<4xi32>
    %ef = vector.shuffle %x0, %x1 [2, 6, 3, 7] : vector<4xi32>, vector<4xi32>
    %gh = vector.shuffle %x2, %x3 [2, 6, 3, 7] : vector<4xi32>, vector<4xi32>
    %y0 = vector.shuffle %ab, %cd [0, 1, 4, 5] : vector<4xi32>, vector<4xi32>
    %y1 = vector.shuffle %ab, %cd [2, 3, 6, 7] : vector<4xi32>, vector<4xi32>
    %y2 = vector.shuffle %ef, %gh [0, 1, 4, 5] : vector<4xi32>, vector<4xi32>
    %y3 = vector.shuffle %ef, %gh [2, 3, 6, 7] : vector<4xi32>, vector<4xi32>
    @TO
  }
)";
inline constexpr const char *readFour = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %out: !llvm.ptr) {
  @FOURLANES
  return
}
)";
inline constexpr const char *someLanes = R"(
  @ALLACTIVE
  scf.if %allactive {
    @FOURLANES
  } else {
    @EACHLANE
  }
)";
inline constexpr const char *readFourRead = R"(
    %t@I = llvm.getelementptr %t[@I] : (!llvm.ptr) -> !llvm.ptr, i64
    %o@I = llvm.load %t@I : !llvm.ptr -> i64
    %p@I = llvm.getelementptr %base[%o@I] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
    %x@I = llvm.load %p@I {alignment = 4 : i64} : !llvm.ptr -> vector<4xi32>
)";
inline constexpr const char *readFourWrite = R"(
    %q@I = llvm.getelementptr %q[@B] : (!llvm.ptr) -> !llvm.ptr, i8
    llvm.store %y@I, %q@I {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr
)";

inline constexpr const char *writeFourRead = R"(
    %q@I = llvm.getelementptr %q[@B] : (!llvm.ptr) -> !llvm.ptr, i8
    %x@I = llvm.load %q@I {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
)";
inline constexpr const char *writeFourWrite = R"(
    %t@I = llvm.getelementptr %t[@I] : (!llvm.ptr) -> !llvm.ptr, i64
    %o@I = llvm.load %t@I : !llvm.ptr -> i64
    %p@I = llvm.getelementptr %base[%o@I] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
    llvm.store %y@I, %p@I {alignment = 4 : i64} : vector<4xi32>, !llvm.ptr
)";

inline constexpr const char *copyWords = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %bits: i32, %to: !llvm.ptr, %totable: !llvm.ptr) {
  @EACHLANE
  return
}
)";
inline constexpr const char *copyBody = R"(
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
      %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<@Nxi32>
      %tp = llvm.getelementptr %totable[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %to1 = llvm.load %tp : !llvm.ptr -> i64
      %q = llvm.getelementptr %to[%to1] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
      llvm.store %x, %q {alignment = 4 : i64} : vector<@Nxi32>, !llvm.ptr
)";

} // namespace kvc::text

#endif // KVC_CODEGEN_LOWER_WARPHELPERWORDS_H
