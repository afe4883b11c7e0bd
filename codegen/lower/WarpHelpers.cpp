//===- WarpHelpers.cpp - functions that are called, not written out --------===//
//
// One access of 32 lanes to places of their own is a hundred instructions; as calls
// kernels stay short, and compile in the time they did. Offsets are elements, in a table
// of 32 words of memory; `bits` says which lanes are active, and no other touches memory.
//
//===----------------------------------------------------------------------===//

#include "codegen/lower/WarpKernel.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace kvc;

/// A loop over the active lanes, with `%l` (i64) the lane and `%o` its offset.
static const char *const eachLane = R"(
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
static const char *const inARow = R"(
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

static const char *const gather = R"(
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
static const char *const maskedRow = R"(
    %onesplat = vector.broadcast %bits : i32 to vector<1xi32>
    %on = vector.bitcast %onesplat : vector<1xi32> to vector<32xi1>
    %off = arith.constant dense<0> : vector<32x@T>
    %v = llvm.intr.masked.load %p, %on, %off {alignment = @A : i32} : (!llvm.ptr, vector<32xi1>, vector<32x@T>) -> vector<32x@T>
)";
/// There are no masks for bytes and halves.
static const char *const wholeRow = R"(
    %v = llvm.load %p {alignment = @A : i64} : !llvm.ptr -> vector<32x@T>
)";
/// One of the 32 lanes, all of them active: as most are, and then nothing is asked of each.
static const char *const gatherLane = R"(
      %t@I = llvm.getelementptr %table[@I] : (!llvm.ptr) -> !llvm.ptr, i64
      %o@I = llvm.load %t@I : !llvm.ptr -> i64
      %p@I = llvm.getelementptr %base[%o@I] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      %x@I = llvm.load %p@I : !llvm.ptr -> @T
)";
static const char *const scatterLane = R"(
      %t@I = llvm.getelementptr %table[@I] : (!llvm.ptr) -> !llvm.ptr, i64
      %o@I = llvm.load %t@I : !llvm.ptr -> i64
      %p@I = llvm.getelementptr %base[%o@I] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      %x@I = vector.extract %v[@I] : @T from vector<32x@T>
      llvm.store %x@I, %p@I : @T, !llvm.ptr
)";
static const char *const allActive = R"(
  %every = arith.constant -1 : i32
  %allactive = arith.cmpi eq, %bits, %every : i32
)";
static const char *const gatherBody = R"(
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      %x = llvm.load %p : !llvm.ptr -> @T
      %q = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      llvm.store %x, %q : @T, !llvm.ptr
)";

/// A lane's own number `%x` of what is handed over, and the place `%p` it goes to.
static const char *const ownNumber = R"(
      %q = llvm.getelementptr %in[%l] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      %x = llvm.load %q : !llvm.ptr -> @T
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, @T
)";

static const char *const scatter = R"(
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
static const char *const scatterBody = R"(
      @OWN
      llvm.store %x, %p : @T, !llvm.ptr
)";

static const char *const atomic = R"(
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
static const char *const atomicBody = R"(
      @OWN
      %old = llvm.atomicrmw @OP %p, %x acq_rel : !llvm.ptr, @T
      %r = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      llvm.store %old, %r : @T, !llvm.ptr
)";
/// Of block memory, which one warp at a time works on.
static const char *const plainBody = R"(
      @OWN
      %old = llvm.load %p : !llvm.ptr -> @T
      %new = llvm.@OP %old, %x : @T
      llvm.store %new, %p : @T, !llvm.ptr
      %r = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, @T
      llvm.store %old, %r : @T, !llvm.ptr
)";

/// Some words of each lane. `%out` has 32 of each; of the other side each lane's are in a
/// row. Offsets are bytes / @E.
static const char *const readWords = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %bits: i32, %out: !llvm.ptr) {
  @EACHLANE
  return
}
)";
static const char *const readWordsBody = R"(
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
      %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<@Nxi32>
      @WORDS
)";
static const char *const readWord = R"(
      %x@I = vector.extract %x[@I] : i32 from vector<@Nxi32>
      %q@I = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      %r@I = llvm.getelementptr %q@I[@B] : (!llvm.ptr) -> !llvm.ptr, i8
      llvm.store %x@I, %r@I : i32, !llvm.ptr
)";
static const char *const writeWordsBody = R"(
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
      @WORDS
)";
static const char *const writeWord = R"(
      %q@I = llvm.getelementptr %out[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      %r@I = llvm.getelementptr %q@I[@B] : (!llvm.ptr) -> !llvm.ptr, i8
      %x@I = llvm.load %r@I : !llvm.ptr -> i32
      %s@I = llvm.getelementptr %p[@C] : (!llvm.ptr) -> !llvm.ptr, i8
      llvm.store %x@I, %s@I : i32, !llvm.ptr
)";

/// All lanes active, four words: sixteen words of four lanes at a time are turned, from
/// `%x` to `%y`.
static const char *const fourLanes = R"(
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
static const char *const readFour = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %out: !llvm.ptr) {
  @FOURLANES
  return
}
)";
static const char *const someLanes = R"(
  @ALLACTIVE
  scf.if %allactive {
    @FOURLANES
  } else {
    @EACHLANE
  }
)";
static const char *const readFourRead = R"(
    %t@I = llvm.getelementptr %t[@I] : (!llvm.ptr) -> !llvm.ptr, i64
    %o@I = llvm.load %t@I : !llvm.ptr -> i64
    %p@I = llvm.getelementptr %base[%o@I] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
    %x@I = llvm.load %p@I {alignment = 4 : i64} : !llvm.ptr -> vector<4xi32>
)";
static const char *const readFourWrite = R"(
    %q@I = llvm.getelementptr %q[@B] : (!llvm.ptr) -> !llvm.ptr, i8
    llvm.store %y@I, %q@I {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr
)";

static const char *const writeFourRead = R"(
    %q@I = llvm.getelementptr %q[@B] : (!llvm.ptr) -> !llvm.ptr, i8
    %x@I = llvm.load %q@I {alignment = 16 : i64} : !llvm.ptr -> vector<4xi32>
)";
static const char *const writeFourWrite = R"(
    %t@I = llvm.getelementptr %t[@I] : (!llvm.ptr) -> !llvm.ptr, i64
    %o@I = llvm.load %t@I : !llvm.ptr -> i64
    %p@I = llvm.getelementptr %base[%o@I] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
    llvm.store %y@I, %p@I {alignment = 4 : i64} : vector<4xi32>, !llvm.ptr
)";

static const char *const copyWords = R"(
func.func private @NAME(%base: !llvm.ptr, %table: !llvm.ptr, %bits: i32, %to: !llvm.ptr, %totable: !llvm.ptr) {
  @EACHLANE
  return
}
)";
static const char *const copyBody = R"(
      %p = llvm.getelementptr %base[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
      %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<@Nxi32>
      %tp = llvm.getelementptr %totable[%l] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %to1 = llvm.load %tp : !llvm.ptr -> i64
      %q = llvm.getelementptr %to[%to1] : (!llvm.ptr, i64) -> !llvm.ptr, i@E
      llvm.store %x, %q {alignment = 4 : i64} : vector<@Nxi32>, !llvm.ptr
)";

/// A function of one number, of each lane's.
static const char *const map = R"(
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
static const char *const exp2Lanes = R"(
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
  %m4 = arith.mulf %c5, %f : vector<32xf32>
  %p4 = arith.addf %m4, %c4 : vector<32xf32>
  %m3 = arith.mulf %p4, %f : vector<32xf32>
  %p3 = arith.addf %m3, %c3 : vector<32xf32>
  %m2 = arith.mulf %p3, %f : vector<32xf32>
  %p2 = arith.addf %m2, %c2 : vector<32xf32>
  %m1 = arith.mulf %p2, %f : vector<32xf32>
  %p1 = arith.addf %m1, %c1 : vector<32xf32>
  %m0 = arith.mulf %p1, %f : vector<32xf32>
  %p0 = arith.addf %m0, %c0 : vector<32xf32>
  %m = arith.mulf %p0, %f : vector<32xf32>
  %p = arith.addf %m, %one : vector<32xf32>
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

static void replaceAll(std::string &text, StringRef from, StringRef to) {
  for (size_t at = 0; (at = text.find(from.str(), at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to.str());
}

static std::string repeated(StringRef text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    std::string one = text.str();
    replaceAll(one, "@I", std::to_string(i));
    replaceAll(one, "@B", std::to_string(128 * i));
    replaceAll(one, "@C", std::to_string(4 * i));
    all += one;
  }
  return all;
}

/// Names are the kind and what it is of: gather_i32, atomic_add_i32, plain_or_i32,
/// words_4_16 (four words, offsets of 16 bits), copy_4_32, map.
static std::string sourceOf(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '_');
  StringRef kind = parts[1], last = parts.back();
  std::string text, body;
  if (kind == "gather") {
    text = gather;
    body = gatherBody;
    replaceAll(text, "@INAROW", inARow);
    bool masks = last == "i32" || last == "i64";
    replaceAll(text, "@ROW", masks ? maskedRow : wholeRow);
    replaceAll(text, "@ENOUGH", masks ? "0" : "-1");
    replaceAll(text, "@LANES", repeated(gatherLane, 32));
    std::string numbers = repeated("%x@I, ", 32);
    replaceAll(text, "@NUMBERS", StringRef(numbers).drop_back(2));
  } else if (kind == "scatter") {
    text = scatter;
    body = scatterBody;
    replaceAll(text, "@LANES", repeated(scatterLane, 32));
  } else if (kind == "atomic" || kind == "plain") {
    text = atomic;
    body = kind == "plain" ? plainBody : atomicBody;
    replaceAll(body, "@OP",
               kind == "atomic" && parts[2] == "or" ? "_or" : parts[2]);
  } else if (kind == "read" || kind == "write") {
    text = readWords;
    body = kind == "read" ? readWordsBody : writeWordsBody;
    int count = 0;
    parts[2].getAsInteger(10, count);
    replaceAll(body, "@WORDS",
               repeated(kind == "read" ? readWord : writeWord, count));
    if (count == 4)
      replaceAll(text, "@EACHLANE", someLanes);
  } else if (kind == "turn") {
    text = readFour;
  } else if (kind == "copy") {
    text = copyWords;
    body = copyBody;
  } else if (kind == "exp2") {
    text = exp2Lanes;
  } else {
    text = map;
  }
  bool writes = kind == "write";
  replaceAll(text, "@FOURLANES", fourLanes);
  replaceAll(text, "@FROM", repeated(writes ? writeFourRead : readFourRead, 4));
  replaceAll(text, "@TO", repeated(writes ? writeFourWrite : readFourWrite, 4));
  replaceAll(body, "@OWN", ownNumber);
  std::string loop = eachLane;
  replaceAll(loop, "@BODY", body);
  replaceAll(text, "@EACHLANE", loop);
  replaceAll(text, "@ALLACTIVE", allActive);
  replaceAll(text, "@NAME", "@" + name.str());
  replaceAll(text, "@T", last);
  replaceAll(text, "@E", last);
  if (parts.size() > 2)
    replaceAll(text, "@N", parts[2]);
  int bits = 8;
  last.drop_while([](char c) { return !isdigit(c); }).getAsInteger(10, bits);
  replaceAll(text, "@A", std::to_string(bits / 8));
  return text;
}

func::FuncOp kvc::warpHelper(ModuleOp module, StringRef name) {
  if (auto known = module.lookupSymbol<func::FuncOp>(name))
    return known;
  OwningOpRef<ModuleOp> parsed =
      parseSourceString<ModuleOp>(sourceOf(name), module.getContext());
  func::FuncOp function = *parsed->getOps<func::FuncOp>().begin();
  function->remove();
  module.push_back(function);
  return function;
}
