//===- Kernels.cpp - what kernel builders share ---------------------------===//

#include "codegen/kernels/Kernels.h"

using namespace mlir;
using namespace kvc;

std::string kvc::scratchName(BufferAttr buffer) {
  return "scratch." + std::to_string(buffer.getIndex());
}

Buffer kvc::scratchBuffer(KernelBuilder &k, StringRef name, Type type) {
  AxisList axes = axesOf(type);
  Expr heads = axes.front() == Axis::QueryHeads
                   ? k.arg("kv_heads") * k.shape.group
               : axes.front() == Axis::KVHeads ? k.arg("kv_heads")
                                               : k.index(1);
  if (axes.size() == 1)
    return k.buffer(name, {heads});
  Expr row = k.arg("max_tokens");
  return k.buffer(name, {heads * row, row});
}
