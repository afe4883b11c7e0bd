// RUN: kvc-opt %s --convert-host-to-llvm | FileCheck %s

// All of a function in one conversion: memory, vectors, math, branches.
// CHECK-LABEL: llvm.func @lanes(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr
// CHECK: %[[ROW:.*]] = llvm.load %{{.*}} : !llvm.ptr -> vector<8xf32>
// CHECK: %[[SQUARE:.*]] = llvm.intr.fma(%[[ROW]], %[[ROW]], %{{.*}}) : (vector<8xf32>, vector<8xf32>, vector<8xf32>) -> vector<8xf32>
// CHECK: llvm.cond_br %{{.*}}, ^[[STORE:.*]], ^[[END:.*]]
// CHECK: ^[[STORE]]:
// CHECK: llvm.store %[[SQUARE]], %{{.*}} : vector<8xf32>, !llvm.ptr
// CHECK: ^[[END]]:
// CHECK: llvm.return
// CHECK-NOT: builtin.unrealized_conversion_cast
func.func @lanes(%memory: memref<64xf32>, %at: index, %value: f32) {
  %limit = arith.constant 56 : index
  %row = vector.load %memory[%at] : memref<64xf32>, vector<8xf32>
  %all = vector.broadcast %value : f32 to vector<8xf32>
  %square = math.fma %row, %row, %all : vector<8xf32>
  %inside = arith.cmpi ule, %at, %limit : index
  cf.cond_br %inside, ^store, ^end
^store:
  vector.store %square, %memory[%at] : memref<64xf32>, vector<8xf32>
  cf.br ^end
^end:
  return
}
