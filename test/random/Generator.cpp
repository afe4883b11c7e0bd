//===- Generator.cpp - a random policy that is well typed -----------------===//

#include "test/random/Generator.h"

#include "runtime/base/Format.h"

using namespace kvc;
using namespace kvc::random;

Generator::Generator(uint64_t seed, bool merged)
    : random(seed), merged(merged) {
  for (int i = 0; i < tastes; ++i)
    taste.push_back(random.of<int64_t>({0, 0, 1, 1, 1, 4}));
  windows = {random.of<int64_t>({1, 2, 5, 8, 16, 32, 40}),
             random.of<int64_t>({3, 4, 13, 16, 17, 31, 33, 64, 70})};
  wild = random.chance(15);
  cutLength = random.of<int64_t>({1, 2, 7, 8, 16, 31, 40, 64, 200});
  cutFrom = random.of<int64_t>({0, 0, 1, 4, 9, 33});
  // Not one of the draws above, so that the other seeds are what they were.
  carries = Random(seed ^ 0x5EED).chance(12);
}

/// A constant, or a parameter with this default.
Value Generator::param(const std::string &text, Type type, Value value) {
  value.type = type;
  if (type.element == Element::I1)
    return out.add("arith.constant " + text, value);
  if (type.element != Element::I32 && random.chance(20))
    return out.add(rt::formatted("kvc.param \"p{}\" = {} : {}", out.size(),
                                 text, type.text()),
                   value);
  return out.add("arith.constant " + text + " : " + type.text(), value);
}

Value Generator::index(int64_t number) {
  Value value;
  value.least = value.most = number;
  return param(std::to_string(number), {Element::Index, Dims::Scalar}, value);
}

Value Generator::number(double value) {
  Value result;
  result.positive = value >= 0;
  result.bounded = std::abs(value) <= 16;
  return param(rt::formatted("{:e}", value), {Element::F32, Dims::Scalar},
               result);
}

Value Generator::fraction(const std::string &text) {
  Value value;
  value.type = {Element::Index, Dims::Scalar};
  std::string body = random.chance(30)
                         ? rt::formatted("kvc.param \"p{}\" = \"{}\" : "
                                         "!kvc.fraction",
                                         out.size(), text)
                         : "kvc.fraction \"" + text + "\"";
  // Nobody may take it for an index.
  value.type.window = 1;
  return out.add(body, value);
}

/// A fraction of at most 1.
Value Generator::share() {
  return fraction(random.of<std::string>(
      {"0.5", "0.25", "0.2", "0.3333", "0.75", "0.1", "1", "0", "0.9999"}));
}

std::pair<int, int> Generator::split(int spend) {
  int left = int(random.below(std::max(1, spend)));
  return {left, std::max(0, spend - 1 - left)};
}

Axis Generator::headsUpTo(Axis most) {
  if (most == Axis::QueryHeads)
    return random.of(
        {Axis::QueryHeads, Axis::QueryHeads, Axis::KVHeads, Axis::OneHead});
  return most == Axis::KVHeads
             ? random.of({Axis::KVHeads, Axis::KVHeads, Axis::OneHead})
             : Axis::OneHead;
}

/// Types of two operands that give the result's heads.
std::pair<Type, Type> Generator::operandTypes(Type result) {
  Type other = result;
  if (result.dims == Dims::Tokens || result.dims == Dims::Heads)
    other.heads = headsUpTo(result.heads);
  // Rows of all heads must be reduced before they meet rows per head.
  if (result.dims == Dims::Rows && result.heads == Axis::QueryHeads &&
      random.chance(25))
    other.heads =
        result.window > 0 && random.chance(3) ? Axis::OneHead : Axis::KVHeads;
  std::pair types(result, other);
  if (random.chance(50))
    std::swap(types.first, types.second);
  return types;
}

Value Generator::earlierOr(const Type &type, int spend,
                           Value (Generator::*make)(Type, int)) {
  if (random.chance(spend > 0 ? 20 : 50))
    if (std::optional<Value> value = out.earlier(random, type))
      return *value;
  return (this->*make)(type, spend);
}

std::string Generator::make() {
  int spend = int(random.chance(35)   ? random.between(1, 6)
                  : random.chance(70) ? random.between(5, 25)
                                      : random.between(20, 60));
  if (carries)
    makeCarried();
  std::string protect;
  if (random.chance(65))
    protect = " protect_last(" + protectedTokens().name + ")";
  if (random.chance(18) || merged) {
    keepMerged(spend, protect);
  } else {
    Value mask = keptMask(spend);
    out.line("kvc.keep " + mask.name + protect + carried + " : " +
             mask.type.text());
  }
  return out.text();
}
