//===- Reductions.cpp - what each kind of reduction computes --------------===//

#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

[[noreturn]] static void doesNotFold() {
  llvm_unreachable("verifiers let only kinds that fold come here");
}

Expr kvc::reductionStart(KernelBuilder &k, ReduceKind kind) {
  double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
  case ReduceKind::Max:
    return k.f32(-infinity);
  case ReduceKind::Min:
    return k.f32(infinity);
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return k.f32(0);
  case ReduceKind::Std:
    break;
  }
  doesNotFold();
}

Expr kvc::reductionStep(ReduceKind kind, Expr sum, Expr value) {
  switch (kind) {
  case ReduceKind::Max:
    return sum.max(value);
  case ReduceKind::Min:
    return sum.min(value);
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return sum + value;
  case ReduceKind::Std:
    break;
  }
  doesNotFold();
}

Expr kvc::reductionEnd(ReduceKind kind, Expr sum, Expr count) {
  switch (kind) {
  case ReduceKind::Max:
  case ReduceKind::Min:
  case ReduceKind::Sum:
    return sum;
  case ReduceKind::Mean:
    return sum / count;
  case ReduceKind::Std:
    break;
  }
  doesNotFold();
}

Expr kvc::reduceLanes(KernelBuilder &k, ReduceKind kind, Expr value,
                      int64_t lanes) {
  for (int64_t mask = lanes / 2; mask; mask /= 2)
    value = reductionStep(kind, value, k.shuffleXor(value, mask));
  return value;
}

Expr kvc::reduceLanesFrom(KernelBuilder &k, ReduceKind kind, Expr value,
                          int64_t first, int64_t lanes) {
  for (int64_t mask = first; mask < lanes; mask *= 2)
    value = reductionStep(kind, value, k.shuffleXor(value, mask));
  return value;
}

Expr kvc::reductionOfEqual(KernelBuilder &k, ReduceKind kind, Expr value,
                           Expr count) {
  switch (kind) {
  case ReduceKind::Max:
  case ReduceKind::Min:
    return reductionStep(kind, reductionStart(k, kind), value);
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return value * count;
  case ReduceKind::Std:
    break;
  }
  doesNotFold();
}

bool kvc::ignoresZeros(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Max:
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return true;
  case ReduceKind::Min:
  case ReduceKind::Std:
    return false;
  }
  llvm_unreachable("all kinds are listed");
}

Expr kvc::varianceOfAll(KernelBuilder &k, Expr count, WalkValues walk) {
  Expr mean = walk(ReduceKind::Sum, [](Expr x) { return x; }) / count;
  Expr squares = walk(ReduceKind::Sum, [&](Expr x) {
    Expr distance = x - mean;
    return distance * distance;
  });
  return squares / count;
}

Expr kvc::reduceAll(KernelBuilder &k, ReduceKind kind, Expr count,
                    WalkValues walk) {
  auto same = [](Expr x) { return x; };
  switch (kind) {
  case ReduceKind::Max:
  case ReduceKind::Min:
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return reductionEnd(kind, walk(kind, same), count);
  case ReduceKind::Std:
    return k.sqrt(varianceOfAll(k, count, walk));
  }
  llvm_unreachable("all kinds are listed");
}
