//===- Noise.cpp - what rounding may do to a policy -----------------------===//

#include "test/random/Noise.h"

#include "test/random/Random.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

using namespace mlir;
using namespace kvc;
using namespace kvc::random;
using reference::Tensor;

/// The first 40 bits of the mantissa: what two roads to one number in double
/// agree on.
static uint64_t bitsOf(double x) {
  return (std::bit_cast<uint64_t>(x) + (1 << 11)) >> 12;
}

/// Twelve bits at most: sums and products of such numbers are exact in fp32.
static bool isCoarse(double x) {
  return (std::bit_cast<uint64_t>(x) & ((1ull << 41) - 1)) == 0;
}

static bool isPowerOfTwo(double x) {
  int exponent;
  return std::frexp(std::abs(x), &exponent) == 0.5;
}

static bool allCoarse(const Tensor &tensor) {
  return std::all_of(tensor.data.begin(), tensor.data.end(), isCoarse);
}

/// What fp32 has instead of very large and very small numbers.
static double inRange(double x) {
  if (std::abs(x) > FLT_MAX * (1 + 1e-8))
    return std::copysign(INFINITY, x);
  return std::abs(x) < 0x1p-150 ? 0 * x : x;
}

/// The unit of the last place in fp32.
static double unitOf(double x) { return std::ldexp(1, std::ilogb(x) - 23); }

static bool isExact(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Max:
  case ReduceKind::Min:
    return true;
  case ReduceKind::Sum:
  case ReduceKind::Mean:
  case ReduceKind::Std:
    return false;
  }
  llvm_unreachable("all kinds are listed");
}

/// Ops that hand on what they get, or whose result is an exact number.
static bool isExact(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return isExact(reduce.getKind());
  if (auto pool = dyn_cast<PoolOp>(op))
    return pool.getKind() == PoolKind::Max;
  if (auto segment = dyn_cast<SegmentOp>(op))
    return segment.getKind() == SegmentKind::Max ||
           segment.getKind() == SegmentKind::Min ||
           segment.getKind() == SegmentKind::Rank;
  if (auto kept = dyn_cast<KeptLayersOp>(op))
    return !kept.getShare();
  return isa<VectorsOp, BroadcastOp, FillOp, ParamOp, FractionOp,
             arith::ConstantOp, arith::SelectOp, arith::NegFOp,
             arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, math::AbsFOp, math::CopySignOp, math::FloorOp,
             math::CeilOp, math::RoundEvenOp>(op);
}

Noise::Noise(PolicyOp policy, const reference::Layer &layer, uint64_t seed,
             double amplitude)
    : layer(layer), seed(seed), fine(seed % 4 == 0),
      amplitude(fine ? amplitude / 16 : amplitude),
      attentionError(amplitude ? attentionErrorOf(layer) / 2 : 0) {
  for (Operation &op : policy.getBody().front())
    numbers.try_emplace(&op, numbers.size());
}

/// -1 to 1. Every other run moves all results of an op together: near its limit
/// a function of fp32 is its limit for many arguments at once, which draws for
/// each of them would never show.
double Noise::draw(uint64_t op, double value, uint64_t salt) const {
  uint64_t own = seed & 1 ? 0 : mix(bitsOf(value)) ^ salt * 0x9e37;
  uint64_t hash = mix(mix(mix(seed) ^ op) ^ own);
  return double(int64_t(hash >> 11)) / double(1ull << 52) - 1;
}

double Noise::logitNoise(uint64_t op, double value, int64_t row) const {
  double ofRow = draw(op, double(row), 1) / 2;
  return amplitude * attentionError * (draw(op, value, 0) + ofRow);
}

double Noise::movedWeight(double weight, int64_t row) const {
  return weight * (1 + logitNoise(~0ull, weight, row));
}

double Noise::movedKey(double x) const {
  return x * (1 + amplitude * draw(~1ull, x, 5));
}

/// Errors of logits, which an exponential makes relative ones of its result: a
/// dot product's, and the log-sum-exp's.
double Noise::attentionErrorOf(const reference::Layer &layer) {
  int64_t d = layer.headDim;
  auto longest = [&](const std::vector<double> &rows) {
    double most = 0;
    for (size_t row = 0; row + d <= rows.size(); row += d) {
      double sum = 0;
      for (int64_t e = 0; e < d; ++e)
        sum += rows[row + e] * rows[row + e];
      if (std::isfinite(sum))
        most = std::max(most, sum);
    }
    return std::sqrt(most);
  };
  // Members are their rows' keys times norms of 2.5 at most.
  double keys = layer.members ? 2.5 * longest(layer.kRaw) : longest(layer.k);
  return 1 + layer.scale * longest(layer.q) * keys;
}

/// Of each result of a reduction: which terms it adds up, in which order. What two
/// sums of the same terms are in fp32 is the same only in the same order, but for
/// zeros, which change nothing. `terms` of them, in a view [outer, terms, inner].
static std::vector<uint64_t> orderOfTerms(const Tensor &operand, int64_t outer,
                                          int64_t terms) {
  if (operand.data.empty()) // sums of no tokens
    return std::vector<uint64_t>(outer);
  int64_t inner = int64_t(operand.data.size()) / (outer * terms);
  std::vector<uint64_t> order(outer * inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < terms; ++j)
      for (int64_t i = 0; i < inner; ++i)
        if (double x = operand.data[(o * terms + j) * inner + i]; x != 0)
          order[o * inner + i] = mix(order[o * inner + i] ^ bitsOf(x));
  return order;
}

/// The same of pools.
static std::vector<uint64_t> orderInWindows(const Tensor &operand,
                                            int64_t width) {
  int64_t past = operand.shape.back();
  std::vector<uint64_t> order(operand.data.size());
  for (int64_t i = 0; i < int64_t(order.size()); ++i) {
    int64_t t = i % past, end = std::min(t + width / 2 + 1, past);
    for (int64_t u = std::max<int64_t>(t - width / 2, 0); u < end; ++u)
      if (double x = operand.data[i - t + u]; x != 0)
        order[i] = mix(order[i] ^ bitsOf(x));
  }
  return order;
}

/// Sums: errors grow with the number of terms, and are relative to the terms.
void Noise::moveSum(Operation *op, const Tensor &operand,
                    ArrayRef<const Tensor *> operands, Tensor &result) const {
  Tensor size = operand;
  for (double &x : size.data)
    x = std::abs(x);
  int64_t terms = 1;
  bool ratio = false, deviation = false;
  int64_t length = 0, from = 0, past = operand.shape.back(), width = 0;
  std::vector<uint64_t> order;
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    deviation = reduce.getKind() == ReduceKind::Std;
    ReduceKind kind = deviation ? ReduceKind::Mean : reduce.getKind();
    size_t last = operand.shape.size() - 1;
    switch (reduce.getAxis()) {
    case ReduceAxis::Queries:
    case ReduceAxis::Channels:
      terms = operand.shape[1];
      size = reference::reduce(size, 1, kind);
      order = orderOfTerms(operand, operand.heads(), terms);
      break;
    case ReduceAxis::Tokens:
      terms = operand.shape[last];
      size = reference::reduce(size, last, kind);
      order = orderOfTerms(operand, int64_t(size.data.size()), terms);
      break;
    case ReduceAxis::Group:
      terms = operand.heads() / layer.kvHeads;
      size = reference::reduceGroup(size, layer.kvHeads, kind);
      order = orderOfTerms(operand, layer.kvHeads, terms);
      break;
    case ReduceAxis::Heads:
      terms = operand.heads();
      size = reference::reduceHeads(size, kind);
      order = orderOfTerms(operand, 1, terms);
      break;
    case ReduceAxis::Members:
      terms = 8; // more or less
      past = result.shape.back();
      size = reference::reduceMembers(layer, size, past, kind);
      break;
    }
  } else if (auto pool = dyn_cast<PoolOp>(op)) {
    terms = width = int64_t(operands[1]->data[0]);
    size = reference::pool(size, terms, false, pool.getCountPadding());
    order = orderInWindows(operand, width);
  } else {
    auto segment = cast<SegmentOp>(op);
    length = int64_t(operands[1]->data[0]);
    from = std::max<int64_t>(0, int64_t(operands[2]->data[0]));
    terms = std::min(std::max(length, from), past);
    ratio = segment.getKind() == SegmentKind::MinMax ||
            segment.getKind() == SegmentKind::Softmax;
    if (!ratio)
      size = reference::segment(size, segment.getKind(), length, from,
                                segment.getNext());
  }
  double grown = amplitude * (1 + std::sqrt(double(terms)) / 2);
  uint64_t number = numbers.lookup(op);
  for (size_t i = 0; i < result.data.size(); ++i) {
    double &x = result.data[i];
    if (!std::isfinite(x))
      continue;
    double error = grown * std::abs(x);
    bool none = false; // a deviation of numbers that are all the same
    if (!ratio && std::isfinite(size.data[i])) {
      error = grown * size.data[i];
      // A mean that is off by e makes a deviation s off by e * e / 2s.
      none = deviation && x <= error;
      if (deviation && !none)
        error = error * error / (2 * x) + grown * x;
    }
    // Equal sums of other terms are off by something else: deviations of 0.
    uint64_t salt = ratio ? 0 : order.empty() ? bitsOf(size.data[i]) : order[i];
    // Vectors are multiplied by the inverse of their channel's range, whose rounding is
    // its own: what is 1 may be a little less.
    if (ratio && operand.shape.size() == 3)
      salt = mix(uint64_t(int64_t(i) / past));
    // Other segments may add up the same numbers in another order.
    if (length) {
      int64_t t = int64_t(i) % past;
      salt ^= t < from ? 1 : uint64_t(2 + (t - from) / length);
    }
    // Windows at the ends have fewer terms: a third of three equal numbers is
    // not the half of two.
    if (width) {
      int64_t t = int64_t(i) % past;
      salt ^= uint64_t(std::min(t + width / 2 + 1, past) -
                       std::max<int64_t>(t - width / 2, 0));
    }
    double moved = error * draw(number, x, salt);
    // What rounding alone leaves is nothing for one and something for the other,
    // whatever the size: any of many may have most, or be the first with none.
    if (none) {
      double left = draw(~number, x, salt);
      // How many are exactly 0 is each run's own: one in 64 to all but that.
      double zeros = 1 / (1 + std::exp2(6 * draw(~number, 0, 2)));
      moved *= (left + 1) / 2 < zeros ? 0 : std::exp2(-16 * std::abs(left));
    }
    if (fine && !ratio && size.data[i] > 0)
      moved -= std::remainder(moved, unitOf(size.data[i]));
    x += moved;
    // Squares are of fp32 as well, and so is their sum.
    if (deviation)
      x = double(terms) * x * x > FLT_MAX ? INFINITY : std::abs(x);
  }
}

void Noise::operator()(Operation *op, ArrayRef<const Tensor *> operands,
                       Tensor &result) const {
  mlir::Type type = op->getResult(0).getType();
  if (!getElementTypeOrSelf(type).isF32())
    return;
  for (double &x : result.data)
    x = inRange(x);
  if (amplitude == 0 || isExact(op))
    return;
  uint64_t number = numbers.lookup(op);
  if (isa<ReduceOp, PoolOp, SegmentOp>(op)) {
    if (!allCoarse(result) || !allCoarse(*operands[0]))
      moveSum(op, *operands[0], operands, result);
  } else if (auto attention = dyn_cast<AttentionOp>(op)) {
    if (attention.getRounded())
      return; // moved before it was rounded
    bool logits = attention.getLogits();
    int64_t past = result.shape[2];
    for (size_t i = 0; i < result.data.size(); ++i) {
      double &x = result.data[i];
      if (!std::isfinite(x))
        continue;
      if (!logits)
        x *= 1 + logitNoise(number, x, int64_t(i) / past);
      else if (x != 0)
        x += amplitude * attentionError * draw(number, x, 0);
    }
  } else if (isa<NormOp, ProjectedNormOp>(op)) {
    double terms = layer.headDim + (isa<NormOp>(op) ? 0 : layer.hidden);
    for (double &x : result.data)
      x += x * amplitude * (1 + std::sqrt(terms) / 2) * draw(number, x, 0);
  } else {
    // Kernels bound the argument of a hyperbolic tangent: from there on it is one
    // number, 1 or a little less, and what double tells apart is a tie.
    double limit = amplitude * (draw(~number, 0, 3) + 1) / 2;
    double bound = draw(~number, 0, 4) < 0 ? 1 : 1 - 0x1p-24;
    bool ofWhole = isa<arith::SIToFPOp, arith::UIToFPOp>(op);
    bool power = isa<math::PowFOp>(op), tangent = isa<math::TanhOp>(op);
    bool approximate = isa<math::MathDialect>(op->getDialect());
    for (size_t i = 0; i < result.data.size(); ++i) {
      double &x = result.data[i];
      bool coarse = isCoarse(x) || (ofWhole && std::abs(x) <= 0x1p24);
      // By a logarithm, exact for powers of two: 9 to the power of 0.5 is not.
      if (power && operands[0]->data.size() == result.data.size())
        coarse &= isPowerOfTwo(operands[0]->data[i]);
      for (const Tensor *operand : operands)
        if (operand->data.size() == result.data.size())
          coarse &= isCoarse(operand->data[i]);
      // Powers and exponentials are as good as their exponents.
      double factor =
          power ? 4 + std::abs(std::log2(std::abs(x) + 1e-300)) : 1;
      // What is approximated is not monotone: near its limit a hyperbolic
      // tangent may be 1 or a little less. Other arguments, other errors.
      uint64_t salt = 0;
      if (approximate)
        for (const Tensor *operand : operands)
          if (operand->data.size() == result.data.size())
            salt = mix(salt ^ bitsOf(operand->data[i]));
      if (tangent && 1 - std::abs(x) < limit)
        x = std::copysign(bound, x);
      else if (!coarse && std::isfinite(x))
        x += x * amplitude * factor * draw(number, x, salt);
    }
  }
  // Kernels' exponentials are 0 where the result has no full mantissa; other
  // ops compute with such numbers.
  double least = draw(number, 0, 1) < 0 ? FLT_MIN : 0;
  for (double &x : result.data)
    x = std::abs(x) < least ? 0 * x : double(float(inRange(x)));
}
