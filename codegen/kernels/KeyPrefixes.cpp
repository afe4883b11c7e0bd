//===- KeyPrefixes.cpp ----------------------------------------------------===//

#include "codegen/kernels/KeyPrefixes.h"

#include "codegen/kernels/SelectedScores.h"

using namespace mlir;
using namespace kvc;

bool kvc::isPrefixes(Type type) {
  return cast<RankedTensorType>(type).getElementType().isInteger(16);
}

Expr kvc::keyPrefix(KernelBuilder &k, Expr score) {
  Expr upper = orderedKey(k, score) >> (keyBits - prefixBits);
  Expr word = upper | k.i32(1 << prefixBits);
  return k.expr(arith::TruncIOp::create(k.b, k.b.getI16Type(), word));
}

Buffer kvc::prefixBuffer(KernelBuilder &k, StringRef name) {
  Expr all = (k.arg("max_tokens") + (prefixesTogether - 1)) / prefixesTogether;
  Expr head = all * prefixesTogether, sequence = head * k.arg("kv_heads");
  Buffer buffer = k.buffer(name, {sequence, head});
  buffer.place = [=](ArrayRef<Expr> at) {
    Expr token = at[2], inside = token % prefixesTogether;
    Expr place = inside % splitTokens * 2 + inside / splitTokens;
    return at[0] * sequence + at[1] * head + (token - inside) + place;
  };
  return buffer;
}
