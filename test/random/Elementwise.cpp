//===- Elementwise.cpp - arith and math on floats, integers and masks -----===//

#include "test/random/Generator.h"

#include "runtime/base/Format.h"

#include <algorithm>

using namespace kvc;
using namespace kvc::random;

static const Type scalarI1{Element::I1, Dims::Scalar};

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

Value Generator::unary(const char *op, Value value) {
  return out.add(rt::formatted("{} {} : {}", op, value.name, value.type.text()),
                 value);
}

Value Generator::binary(const char *op, Value a, Value b, Type type) {
  Value result{.type = type};
  result.positive = a.positive && b.positive;
  result.bounded = a.bounded && b.bounded;
  result.reach = std::max(a.reach, b.reach);
  result.points = a.points + b.points;
  result.cut = std::max(a.cut, b.cut);
  return out.add(
      rt::formatted("{} {}, {} : {}", op, a.name, b.name, type.text()), result);
}

/// What a logarithm or a root takes: mostly 0 or more, now and then anything.
Value Generator::positiveForm(Value value) {
  if (value.positive || random.chance(6))
    return value;
  value = unary("math.absf", value);
  value.positive = true;
  return value;
}

/// What an exponential takes.
Value Generator::boundedForm(Value value) {
  if (value.bounded || random.chance(6))
    return value;
  value = unary("math.tanh", value);
  value.bounded = true;
  return value;
}

Value Generator::elementwise(Type type, int spend) {
  auto [left, right] = split(spend);
  bool rows = type.dims == Dims::Rows;
  if (random.chance(spend > 1 ? 35 : 70)) {
    Value x = floats(type, spend - 1);
    switch (random.weighted({2, 2, 3, 2, 1, 2, 1, 2, 3, 1, 2, 1, 1, 1})) {
    case 0:
      x = unary("arith.negf", x);
      x.positive = false;
      return x;
    case 1:
      x = unary("math.absf", x);
      x.positive = true;
      return x;
    case 2:
      x = unary("math.exp", boundedForm(x));
      x.bounded = false;
      x.positive = true;
      return x;
    case 3:
      x = unary("math.exp2", boundedForm(x));
      x.bounded = false;
      x.positive = true;
      return x;
    case 4:
      x = unary("math.expm1", boundedForm(x));
      x.bounded = false;
      return x;
    case 5:
      x = unary(random.of({"math.log", "math.log2"}), positiveForm(x));
      x.positive = false;
      return x;
    case 6:
      x = unary("math.log2", positiveForm(x));
      x.positive = false;
      return x;
    case 7:
      return unary("math.log1p", positiveForm(x));
    case 8:
      return unary("math.sqrt", positiveForm(x));
    case 9:
      x = unary("math.rsqrt", positiveForm(x));
      x.bounded = false;
      return x;
    case 10:
      x = unary("math.tanh", x);
      x.bounded = true;
      return x;
    case 11:
      return unary("math.floor", x);
    case 12:
      return unary("math.ceil", x);
    default:
      return unary("math.roundeven", x);
    }
  }
  auto [ta, tb] = operandTypes(type);
  Value a = floats(ta, left);
  // Rows beside a number (repeated rows).
  Value b =
      rows && random.chance(15) ? repeatedRows(type, right) : floats(tb, right);
  if (rows && a.type.heads != type.heads && b.type.heads != type.heads)
    a = floats(type, 0);
  switch (random.weighted({6, 4, 6, 3, taste[OddMath], 2, 2, taste[OddMath],
                           taste[OddMath], taste[OddMath], 1, 2})) {
  case 0:
    return binary("arith.addf", a, b, type);
  case 1: {
    Value x = binary("arith.subf", a, b, type);
    x.positive = false;
    return x;
  }
  case 2: {
    Value x = binary("arith.mulf", a, b, type);
    x.positive |= a.name == b.name;
    return x;
  }
  case 3: {
    if (!random.chance(10)) {
      b = positiveForm(b);
      Type sum = b.type;
      b = binary("arith.addf", b, constantFloats(b.type), b.type);
      b.type = sum;
    }
    Value x = binary("arith.divf", a, b, type);
    x.bounded = false;
    return x;
  }
  case 4: // refused
    return binary(random.chance(5) ? "arith.remf" : "arith.addf", a, b, type);
  case 5:
    return binary("arith.maximumf", a, b, type);
  case 6:
    return binary("arith.minimumf", a, b, type);
  case 7:
    return binary("arith.maxnumf", a, b, type);
  case 8:
    return binary("arith.minnumf", a, b, type);
  case 9: {
    a = positiveForm(a);
    Value x = binary("math.powf", a, boundedForm(b), type);
    x.bounded = false;
    return x;
  }
  case 10: {
    Value x = binary("math.copysign", a, b, type);
    x.positive = b.positive;
    return x;
  }
  default: {
    Value c = floats(tb, 0), result = c;
    result.type = type;
    result.positive &= a.positive && b.positive;
    result.bounded &= a.bounded && b.bounded;
    result.reach = std::max({a.reach, b.reach, c.reach});
    result.points = a.points + b.points + c.points;
    result.cut = std::max({a.cut, b.cut, c.cut});
    return out.add(rt::formatted("math.fma {}, {}, {} : {}", a.name, b.name,
                                 c.name, type.text()),
                   result);
  }
  }
}

/// One of two values, by a mask.
Value Generator::selectOf(Type type, int spend) {
  auto [first, rest] = split(spend);
  auto [left, right] = split(rest);
  auto [ta, tb] = operandTypes(type);
  Value a = floats(ta, left), b = floats(tb, right);
  Value mask;
  if (random.chance(8) && type.dims != Dims::Scalar)
    mask = masks(scalarI1, 1);
  else
    mask = masks(type.dims == Dims::Rows || type.dims == Dims::Vectors
                     ? type.of(Element::I1)
                     : type.of(Element::I1).with(headsUpTo(type.heads)),
                 first);
  Value result{.type = type,
               .positive = a.positive && b.positive,
               .bounded = a.bounded && b.bounded,
               .reach = std::max({a.reach, b.reach, mask.reach}),
               .points = a.points + b.points + mask.points,
               .cut = std::max({a.cut, b.cut, mask.cut})};
  std::string types = mask.type.dims == Dims::Scalar
                          ? type.text()
                          : mask.type.text() + ", " + type.text();
  return out.add(rt::formatted("arith.select {}, {}, {} : {}", mask.name,
                               a.name, b.name, types),
                 result);
}

//===----------------------------------------------------------------------===//
// Integers. Their range is known, so that nothing wraps and nothing that is
// undefined is computed.
//===----------------------------------------------------------------------===//

Value Generator::ints(Type type, int spend) {
  return earlierOr(type, spend, &Generator::makeInts);
}

Value Generator::intLeaf(Type type) {
  if (type.dims == Dims::Scalar) {
    if (type.element == Element::Index && random.chance(50)) {
      static const std::pair<const char *, int64_t> ops[] = {
          {"kvc.budget", 300}, {"kvc.length", 300}, {"kvc.layers", 64}};
      auto [op, most] = ops[random.below(3)];
      return out.add(op, {.type = type, .least = 1, .most = most});
    }
    if (type.element == Element::Index && random.chance(15))
      return out.add("kvc.layer", {.type = type, .least = 0, .most = 64});
    int64_t n = random.of<int64_t>({0, 1, 2, 3, 4, 5, 7, 8, 16, 20, 50});
    return param(std::to_string(n), type, {.least = n, .most = n});
  }
  if (type.dims == Dims::Tokens && type.heads == Axis::OneHead &&
      random.chance(60))
    return out.add(rt::formatted("kvc.position{} : {}",
                                 random.chance(40) ? " from_end" : "",
                                 type.text()),
                   {.type = type, .most = 300});
  if (type.heads != Axis::OneHead)
    return makeInts(type, 1);
  Value scalar =
      intLeaf({random.of({Element::I32, Element::Index}), Dims::Scalar});
  std::string body =
      rt::formatted("kvc.broadcast {}{} : {} to {}", scalar.name,
                    type.dims == Dims::Vectors ? " along channels" : "",
                    scalar.type.text(), type.text());
  scalar.type = type;
  return out.add(body, scalar);
}

Value Generator::makeInts(Type type, int spend) {
  bool perHead = type.heads != Axis::OneHead;
  if (type.dims == Dims::Heads && type.heads == Axis::KVHeads &&
      random.chance(spend > 2 ? 30 : 100))
    return makeCounts(type, spend);
  if (type.dims == Dims::Tokens && type.heads == Axis::KVHeads &&
      random.chance(20))
    return out.add(rt::formatted("kvc.position row{} : {}",
                                 random.chance(40) ? " from_end" : "",
                                 type.text()),
                   {.type = type, .most = 300});
  if (spend <= 0 || (!perHead && random.chance(25)))
    return perHead ? makeInts(type, 1) : intLeaf(type);
  if (spend > 1 && random.chance(60))
    return intBinary(type, spend);
  if (type.dims == Dims::Scalar && type.element == Element::Index) {
    if (random.chance(50))
      return intLeaf(type);
    Value count = ints(type, spend - 1);
    if (count.most > 100000)
      return count;
    bool over = random.chance(30);
    std::string by =
        over ? fraction(random.of<std::string>({"0.5", "1.5", "2", "4", "1.2"}))
                   .name
             : share().name;
    Value result = count;
    result.most = over ? count.most * 2 : count.most;
    result.least = 0;
    return out.add(rt::formatted("kvc.scale_count {} {}({}) : index",
                                 count.name, over ? "over" : "by", by),
                   result);
  }
  if (type.element == Element::Index)
    return intLeaf(type);
  if (type.dims == Dims::Scalar) {
    Value value = ints(type.of(Element::Index), spend - 1);
    std::string op =
        random.of<std::string>({"arith.index_cast", "arith.index_castui"});
    if (value.least < 0)
      op = "arith.index_cast";
    std::string body = op + " " + value.name + " : index to i32";
    value.type = type;
    return out.add(body, value);
  }
  Value result{.type = type};
  if (random.chance(40)) { // a mask
    Value mask = masks(type.of(Element::I1), spend - 1);
    bool sign = random.chance(20);
    result.least = sign ? -1 : 0;
    result.most = sign ? 0 : 1;
    result.reach = mask.reach;
    result.cut = mask.cut;
    return out.add(rt::formatted("arith.{} {} : {} to {}",
                                 sign ? "extsi" : "extui", mask.name,
                                 mask.type.text(), type.text()),
                   result);
  }
  if (random.chance(25)) {
    Value value = ints(type, spend - 1);
    value.most = std::max(value.most, -value.least);
    value.least = value.least == INT32_MIN ? value.least : 0;
    value = unary("math.absi", value);
    value.withinPast = false;
    return value;
  }
  if (wild && random.chance(30)) { // saturates; 0 of a NaN
    Value x = floats(type.of(Element::F32), spend - 1);
    bool sign = random.chance(60);
    return out.add(rt::formatted("arith.{} {} : {} to {}",
                                 sign ? "fptosi" : "fptoui", x.name,
                                 x.type.text(), type.text()),
                   {.type = type,
                    .least = INT32_MIN,
                    .most = INT32_MAX,
                    .reach = x.reach,
                    .cut = x.cut});
  }
  // A float between -50 and 50; a NaN would be undefined.
  Type like = type.of(Element::F32);
  Value x = floats(like, spend - 1);
  std::string ty = like.text();
  Value wide = x;
  wide.type = like;
  wide = unary("math.tanh", wide);
  std::string number = (this->number)(50).name;
  bool vectors = like.dims == Dims::Vectors;
  Value fifty =
      out.add(rt::formatted("kvc.broadcast {}{} : f32 to {}", number,
                            vectors ? " along channels" : "", ty),
              {.type = like.with(vectors ? like.heads : Axis::OneHead)});
  Value scaled = binary("arith.mulf", wide, fifty, like);
  std::string valid = out.add(rt::formatted("arith.cmpf ord, {}, {} : {}",
                                            scaled.name, scaled.name, ty),
                              {.type = like.of(Element::I1)})
                          .name;
  Value real = scaled;
  real = out.add(rt::formatted("arith.select {}, {}, {} : {}, {}", valid,
                               scaled.name, fifty.name,
                               like.of(Element::I1).text(), ty),
                 real);
  result.least = -50;
  result.most = 50;
  result.reach = x.reach;
  result.cut = x.cut;
  if (random.chance(40)) {
    real = unary("math.absf", real);
    result.least = 0;
    return out.add(
        rt::formatted("arith.fptoui {} : {} to {}", real.name, ty, type.text()),
        result);
  }
  return out.add(
      rt::formatted("arith.fptosi {} : {} to {}", real.name, ty, type.text()),
      result);
}

Value Generator::intBinary(Type type, int spend) {
  auto [left, right] = split(spend);
  auto [ta, tb] = operandTypes(type);
  Value a = ints(ta, left), b = ints(tb, right);
  struct Range {
    int64_t least, most;
  };
  bool index = type.element == Element::Index;
  bool natural = wild || (a.least >= 0 && b.least >= 0);
  struct Choice {
    const char *op;
    bool allowed;
    Range range;
    int64_t weight = 2;
  };
  int64_t bits = 1;
  while (bits <= std::max(a.most, b.most))
    bits *= 2;
  // Bounds of products, over all corners.
  int64_t corners[] = {a.least * b.least, a.least * b.most, a.most * b.least,
                       a.most * b.most};
  auto [low, high] = std::minmax_element(corners, corners + 4);
  std::vector<Choice> choices{
      {"arith.addi", true, {a.least + b.least, a.most + b.most}},
      // A number below 0 of type index is a very large one.
      {"arith.subi",
       wild || !index || a.least >= b.most,
       {a.least - b.most, a.most - b.least}},
      {"arith.muli", true, {*low, *high}},
      {"arith.divui", natural, {0, a.most}},
      {"arith.ceildivui", natural, {0, a.most}, 3},
      {"arith.remui", natural, {0, std::max(a.most, b.most)}},
      {"arith.minui", natural, {0, std::min(a.most, b.most)}},
      {"arith.maxui", natural, {0, std::max(a.most, b.most)}},
      {"arith.minsi",
       true,
       {std::min(a.least, b.least), std::min(a.most, b.most)}},
      {"arith.maxsi",
       true,
       {std::max(a.least, b.least), std::max(a.most, b.most)}},
      {"arith.andi", natural, {0, std::min(a.most, b.most)}, 1},
      {"arith.ori", natural, {0, bits}, 1},
      {"arith.xori", natural, {0, bits}, 1},
  };
  std::erase_if(choices, [&](const Choice &c) {
    return !c.allowed ||
           (!wild && (c.range.least < -1000000 || c.range.most > 1000000));
  });
  if (choices.empty())
    return intLeaf(type.dims == Dims::Scalar ? type : type);
  std::vector<int64_t> weights;
  for (const Choice &choice : choices)
    weights.push_back(choice.weight);
  const Choice &choice = choices[random.weighted(weights)];
  Value result = binary(choice.op, a, b, type);
  result.least = choice.range.least;
  result.most = choice.range.most;
  if (wild && (a.least < 0 || b.least < 0 || result.least < -1000000 ||
              result.most > 1000000)) {
    result.least = INT32_MIN;
    result.most = INT32_MAX;
  }
  result.withinPast = false;
  return result;
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

Value Generator::masks(Type type, int spend) {
  return earlierOr(type, spend, &Generator::makeMasks);
}

Value Generator::makeMasks(Type type, int spend) {
  auto [left, right] = split(spend);
  bool tokens = type.dims == Dims::Tokens, heads = type.dims == Dims::Heads;
  bool ofKV = type.heads == Axis::KVHeads;
  if (type.dims == Dims::Scalar) {
    if (random.chance(40))
      return param(random.of<std::string>({"true", "false"}), type, {});
    Type index{Element::Index, Dims::Scalar};
    Value a = ints(index, left), b = ints(index, right);
    return out.add(rt::formatted("arith.cmpi {}, {}, {} : index",
                                 random.of({"ult", "ule", "ugt", "uge", "eq",
                                            "ne", "slt"}),
                                 a.name, b.name),
                   {.type = type});
  }
  bool more = spend > 1;
  switch (random.weighted({4, (heads || tokens) * (1 + taste[Integers]),
                           2 * more, more * (tokens && ofKV) * 3,
                           (tokens || heads) * ofKV, tokens * more,
                           tokens && !ofKV && type.heads == Axis::OneHead,
                           more * taste[Integers]})) {
  case 0: {
    auto [ta, tb] = operandTypes(type.of(Element::F32));
    Value a = floats(ta, left);
    Value b = random.chance(40) && type.dims != Dims::Rows ? constantFloats(tb)
                                                           : floats(tb, right);
    if (type.heads != Axis::OneHead && a.type.heads != type.heads &&
        b.type.heads != type.heads)
      a = floats(type.of(Element::F32), 0);
    // What compares with itself is folded, or refused.
    if (a.name == b.name && !random.chance(3))
      b = type.dims == Dims::Rows ? unary("arith.negf", a) : constantFloats(tb);
    Value result{.type = type};
    result.reach = std::max(a.reach, b.reach);
    result.points = a.points + b.points;
    result.cut = std::max(a.cut, b.cut);
    return out.add(
        rt::formatted("arith.cmpf {}, {}, {} : {}",
                      random.chance(1)
                          ? random.of({"true", "false"})
                          : random.of({"oeq", "ogt", "oge", "olt", "ole", "one",
                                       "ord", "ueq", "ugt", "uge", "ult", "ule",
                                       "une", "uno", "ogt", "olt"}),
                      a.name, b.name, a.type.text()),
        result);
  }
  case 1: {
    auto [ta, tb] = operandTypes(type.of(Element::I32));
    Value a = ints(ta, left), b = ints(tb, right);
    if (a.name == b.name && !random.chance(3))
      b = binary("arith.addi", a, ints(tb, 0), a.type);
    bool natural = a.least >= 0 && b.least >= 0;
    std::string predicate =
        natural
            ? random.of<std::string>({"ult", "ule", "ugt", "uge", "slt", "sle",
                                      "sgt", "sge", "eq", "ne"})
            : random.of<std::string>({"slt", "sle", "sgt", "sge", "eq", "ne"});
    return out.add(rt::formatted("arith.cmpi {}, {}, {} : {}", predicate,
                                 a.name, b.name, a.type.text()),
                   {.type = type});
  }
  case 2: {
    auto [ta, tb] = operandTypes(type);
    Value a = masks(ta, left), b = masks(tb, right);
    if (random.chance(15))
      return binary(
          random.of({"arith.cmpi ult,", "arith.cmpi ne,", "arith.cmpi uge,"}),
          a, b, type);
    return binary(random.of({"arith.ori", "arith.andi", "arith.xori"}), a, b,
                  type);
  }
  case 3: {
    Value score =
        floats({Element::F32, Dims::Tokens,
                random.of({Axis::KVHeads, Axis::KVHeads, Axis::OneHead})},
               left);
    return topk(score, counts(right));
  }
  case 4: {
    Value value = floats({Element::F32, Dims::Heads, Axis::KVHeads}, spend - 1);
    Value count = random.chance(80) ? index(random.between(0, 3))
                                    : ints({Element::Index, Dims::Scalar}, 1);
    return out.add(rt::formatted("kvc.select_heads {} {} count({}) : {} -> {}",
                                 random.of({"lowest", "highest"}), value.name,
                                 count.name, value.type.text(), type.text()),
                   {.type = type});
  }
  case 5: { // of a head, for each of its tokens
    Value head = masks({Element::I1, Dims::Heads, type.heads}, spend - 1);
    return out.add(rt::formatted("kvc.broadcast {} : {} to {}", head.name,
                                 head.type.text(), type.text()),
                   {.type = type});
  }
  case 7: {
    Value value = ints(type.of(Element::I32), spend - 1);
    return out.add(rt::formatted("arith.trunci {} : {} to {}", value.name,
                                 value.type.text(), type.text()),
                   {.type = type, .reach = value.reach, .cut = value.cut});
  }
  default: {
    Value truth =
        param(random.of<std::string>({"true", "true", "false"}), scalarI1, {});
    return out.add(
        rt::formatted("kvc.broadcast {} : i1 to {}", truth.name, type.text()),
        {.type = type});
  }
  }
}
