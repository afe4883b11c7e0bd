//===- KeptLayers.cpp - in how many layers a token was kept ---------------===//

#include "codegen/kernels/KeptLayers.h"

using namespace mlir;
using namespace kvc;

static Buffer stateBuffer(KernelBuilder &k) {
  return k.buffer("state", {k.arg("state_rows")});
}

/// Blocks of the running layer may or may not have been here.
Expr kvc::keptLayers(KernelBuilder &k, const SequenceScalars &s, Expr token) {
  Expr word = k.load(stateBuffer(k), {s.sequence, token});
  Expr counted = (word >> 16) == (k.arg("layer") + 1).toI32();
  return (word & 0xffff) - counted.toI32();
}

void kvc::countKept(KernelBuilder &k, const SequenceScalars &s, Expr head,
                    Expr row) {
  Expr token = positionOf(k, s, Point{head, -1, {}, row});
  Expr layer = (k.arg("layer") + 1).toI32() << 16;
  k.store(layer | (keptLayers(k, s, token) + 1), stateBuffer(k),
          {s.sequence, token});
}
