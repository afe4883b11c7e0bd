//===- Selection.cpp - counts, kept tokens, merges ------------------------===//

#include "test/random/Generator.h"

#include "runtime/base/Format.h"

using namespace kvc;
using namespace kvc::random;

static const Type countType{Element::I32, Dims::Heads, Axis::KVHeads};
static const Type maskType{Element::I1, Dims::Tokens, Axis::KVHeads};
static const Type scoreType{Element::F32, Dims::Tokens, Axis::KVHeads};
static const Type indexType{Element::Index, Dims::Scalar};

Value Generator::uniform() {
  return out.add("kvc.allocate uniform : " + countType.text(),
                 {.type = countType, .most = 300, .withinPast = true});
}

/// How a table's shares are made: what heads have at least, and what is shared
/// out, together B - min(w, B).
Value Generator::tableCounts() {
  Value budget = out.add("kvc.budget", {.type = indexType, .most = 300});
  Value part = out.add(
      rt::formatted(
          "kvc.scale_count {} by({}) : index", budget.name,
          fraction(random.of<std::string>({"0.1", "0.25", "0.5"})).name),
      {.type = indexType, .most = 300});
  // A part of the budget may still be more than the past holds.
  Value four = index(4);
  part = out.add(
      rt::formatted("arith.divui {}, {} : index", part.name, four.name), part);
  Value least = random.chance(40) ? index(0) : part;
  return out.add(rt::formatted("kvc.allocate_table base({}) shared({}) : {}",
                               least.name, part.name, countType.text()),
                 {.type = countType, .most = 300, .withinPast = true});
}

/// One for all heads that needs more than 31 bits: 32 of it are left, and it is below 0.
Value Generator::wrappedCount() {
  // Nobody else may have it: a window of so many is refused.
  const Type ofIt{Element::Index, Dims::Heads};
  Value result{.type = countType.with(Axis::OneHead)};
  auto repeated = [&](int64_t number) {
    Value scalar = out.add(rt::formatted("arith.constant {} : index", number),
                           {.type = ofIt});
    result.least = result.most = int32_t(number);
    return rt::formatted("kvc.broadcast {} : index to {}", scalar.name,
                         countType.text());
  };
  bool isIndex = random.chance(50);
  std::string body = repeated(isIndex ? 3000000000 : 50000);
  if (isIndex)
    return out.add(body, result);
  Value root = out.add(body, result);
  result.least = result.most = int32_t(50000 * 50000u);
  return out.add(rt::formatted("arith.muli {}, {} : {}", root.name, root.name,
                               countType.text()),
                 result);
}

Value Generator::counts(int spend) {
  if (random.chance(2))
    return wrappedCount();
  if (random.chance(15))
    if (std::optional<Value> value = out.earlier(random, countType);
        value && value->least >= 0)
      return *value;
  if (random.chance(8)) { // one number for all heads
    Value number = ints(indexType, 0);
    std::string body = rt::formatted("kvc.broadcast {} : index to {}",
                                     number.name, countType.text());
    number.type = countType.with(Axis::OneHead);
    return out.add(body, number);
  }
  return makeCounts(countType, spend);
}

Value Generator::makeCounts(Type type, int spend) {
  auto within = [&](Value count) {
    if (count.withinPast || random.chance(50))
      return count;
    Value share = uniform();
    Value result = binary("arith.minui", count, share, countType);
    result.most = 300;
    result.withinPast = true;
    return result;
  };
  bool more = spend > 0;
  switch (
      random.weighted({6, 2, 3 * more, 1, 3, 2 * more, 2 * more, 1, more})) {
  case 0:
    return uniform();
  case 1: {
    std::string ratio =
        fraction(random.of<std::string>({"1", "2", "1.5", "20", "4.25"})).name;
    return out.add(
        rt::formatted("kvc.allocate_layers ratio({}) : {}", ratio, type.text()),
        {.type = type, .most = 600, .withinPast = true});
  }
  case 2: {
    auto [left, right] = split(spend);
    Value score = floats(scoreType, left);
    Value base = within(counts(right));
    if (base.type != countType || base.least < 0)
      base = uniform();
    return out.add(rt::formatted("kvc.allocate_heads {} base({}) safeguard({}) "
                                 ": {}, {}",
                                 score.name, base.name, share().name,
                                 score.type.text(), type.text()),
                   {.type = type, .most = 1200, .withinPast = false});
  }
  case 3:
    return tableCounts();
  case 4: {
    Value count = counts(spend - 1);
    if (count.most > 10000 || count.least < 0)
      return count;
    bool over = random.chance(20);
    std::string by =
        over ? fraction(random.of<std::string>({"0.5", "2", "1.2"})).name
             : share().name;
    Value result = count;
    result.least = 0;
    result.most *= over ? 2 : 1;
    result.withinPast &= !over;
    return out.add(rt::formatted("kvc.scale_count {} {}({}) : {}", count.name,
                                 over ? "over" : "by", by, type.text()),
                   result);
  }
  case 5: {
    Value score = floats(scoreType, spend - 1);
    if (random.chance(90))
      score = positiveForm(score);
    Value rest = number(random.of({0.0, 0.01, 0.1, 0.5, 1.0, 5.0, 100.0}));
    return out.add(rt::formatted("kvc.count_mass {} all_but({}) : {} -> {}",
                                 score.name, rest.name, score.type.text(),
                                 type.text()),
                   {.type = type, .most = 300, .withinPast = true});
  }
  case 6: {
    Value a = counts(spend / 2), b = counts(spend / 2);
    if (a.type == countType.with(Axis::OneHead))
      std::swap(a, b);
    if (a.type != countType || a.least < 0 || b.least < 0 ||
        a.most + b.most > 100000)
      return uniform();
    std::string op = random.of<std::string>(
        {"addi", "minui", "maxui", "divui", "minsi", "remui"});
    Value result = binary(("arith." + op).c_str(), a, b, type);
    result.most = a.most + b.most;
    result.withinPast =
        op != "addi" && op != "remui" && a.withinPast && b.withinPast;
    return result;
  }
  case 7: {
    bool all = random.chance(50);
    return out.add(
        rt::formatted("kvc.count_rows{} : {}", all ? " all" : "", type.text()),
        {.type = type, .most = 300, .withinPast = !all});
  }
  default: {
    Value mask = masks({Element::I1, Dims::Heads, Axis::KVHeads}, spend - 1);
    Value a = counts(0), b = counts(0);
    if (a.least < 0 || b.least < 0)
      return uniform();
    return out.add(rt::formatted("arith.select {}, {}, {} : {}, {}", mask.name,
                                 a.name, b.name, mask.type.text(), type.text()),
                   {.type = type,
                    .most = std::max(a.most, b.most),
                    .withinPast = a.withinPast && b.withinPast});
  }
  }
}

Value Generator::topk(Value score, Value count) {
  return out.add(rt::formatted("kvc.topk {}, {} : {}, {} -> {}", score.name,
                               count.name, score.type.text(), count.type.text(),
                               maskType.text()),
                 {.type = maskType});
}

/// How many of the last tokens stay whatever their score.
Value Generator::protectedTokens() {
  auto add = [&](const std::string &body) {
    return out.add(body, {.type = indexType, .most = 300});
  };
  switch (random.weighted({10, 3, 3, 2, 1, 1})) {
  case 0:
    return index(random.chance(50) ? random.of(windows)
                                   : random.between(0, 40));
  case 1:
    return add(rt::formatted("kvc.scale_count {} by({}) : index",
                             add("kvc.budget").name, share().name));
  case 2:
    return add(rt::formatted("arith.divui {}, {} : index",
                             add("kvc.length").name,
                             index(random.between(2, 20)).name));
  case 3:
    return add(rt::formatted("arith.minui {}, {} : index",
                             index(random.between(1, 40)).name,
                             add("kvc.budget").name));
  case 4: // below 0 where the budget is small: more than any sequence has
    return add(rt::formatted("arith.subi {}, {} : index",
                             add("kvc.budget").name,
                             index(random.between(1, 100)).name));
  default:
    return add(rt::formatted("arith.addi {}, {} : index", add("kvc.layer").name,
                             index(random.between(1, 20)).name));
  }
}

/// The score, +inf where marked.
Value Generator::forced(Value mask, Value score) {
  Value infinity = out.add("kvc.fill 0x7F800000 : " + scoreType.text(),
                           {.type = scoreType.with(Axis::OneHead)});
  return out.add(rt::formatted("arith.select {}, {}, {} : {}, {}", mask.name,
                               infinity.name, score.name, mask.type.text(),
                               scoreType.text()),
                 {.type = scoreType});
}

Value Generator::rankable(int spend) {
  Value score = floats(
      random.chance(90) ? scoreType : scoreType.with(Axis::OneHead), spend);
  // What kvc-prune-norms looks for: a factor times norms.
  if (taste[ProjectedNorms] > 1 && random.chance(40)) {
    Type queryHeads = scoreType.with(Axis::QueryHeads);
    Value norms = out.add("kvc.projected_norm l1 : " + queryHeads.text(),
                          {.type = queryHeads, .positive = true});
    Value group = reduce("group", norms, scoreType);
    return binary("arith.mulf", score, group, scoreType);
  }
  return score;
}

Value Generator::keptMask(int spend) {
  auto [left, right] = split(spend);
  switch (random.weighted({40, 20, 10, 5, 8, 2, 1})) {
  case 0:
    return topk(rankable(left), counts(right));
  case 1: {
    Value first = masks(maskType, left);
    Value score = rankable(right);
    if (score.type != scoreType)
      score = floats(scoreType, 0);
    return topk(forced(first, score), counts(1));
  }
  case 2:
  case 3: {
    Value a = topk(rankable(left), counts(1)),
          b = topk(rankable(right), counts(1));
    return binary(
        random.of({"arith.ori", "arith.ori", "arith.andi", "arith.xori"}), a, b,
        maskType);
  }
  case 4: {
    Value a =
        masks(maskType.with(random.of({Axis::OneHead, Axis::KVHeads})), left);
    Value b = topk(rankable(right), counts(1));
    return binary(random.of({"arith.ori", "arith.andi"}), a, b, maskType);
  }
  case 5:
    return masks(maskType, spend);
  default: // per query head: not a KV head's decision
    return masks(maskType.with(Axis::QueryHeads), spend);
  }
}

void Generator::keepMerged(int spend, const std::string &protect) {
  auto [left, right] = split(spend);
  Value score = floats(scoreType, left);
  Value count = counts(1);
  Value centres = topk(score, count);
  Value used;
  if (random.chance(70)) {
    Value two = counts(0);
    Value both = binary("arith.addi", two, count, countType);
    both.most = 1000;
    if (both.type == countType && count.type == countType)
      used = topk(score, both);
    else
      used = topk(score, uniform());
  } else {
    used = masks(maskType, right / 2);
  }
  // Centres are no sources.
  Value sources = binary("arith.cmpi ult,", centres, used, maskType);
  Value open = centres;
  if (random.chance(30)) {
    Value closed = topk(score, counts(0));
    open = binary("arith.cmpi ult,", closed, centres, maskType);
  }
  std::string sides = side();
  if (random.chance(40))
    sides += " times " + side();
  Value least = number(random.of({-1.0, -0.5, 0.0, 0.2, 0.6, 0.95, 2.0}));
  Type ints = maskType.of(Element::I32);
  Value to =
      out.add(rt::formatted("kvc.nearest {} in {} of {} at_least({}) : "
                            "{}, {} -> {}",
                            sources.name, open.name, sides, least.name,
                            maskType.text(), maskType.text(), ints.text()),
              // Nothing else reads it.
              {.type = {Element::I32, Dims::Tokens, Axis::KVHeads, 1}});
  Value weight =
      random.chance(30)
          ? constantFloats(scoreType)
          : floats(scoreType.with(random.of(
                       {Axis::KVHeads, Axis::KVHeads, Axis::OneHead})),
                   right / 2);
  if (!weight.positive)
    weight = unary("math.absf", weight);
  std::string more;
  if (!merged && random.chance(30))
    more = " share_positions";
  if (merged && random.chance(40))
    more = rt::formatted(" at_most({})", random.chance(50)
                                             ? index(random.between(1, 90)).name
                                             : protectedTokens().name);
  out.line(rt::formatted("kvc.keep {} merge({}, {} : {}, {}){}{}{} : {}",
                         centres.name, to.name, weight.name, ints.text(),
                         weight.type.text(), more, protect, carried,
                         maskType.text()));
}
