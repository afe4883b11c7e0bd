//===- Values.cpp - floats of every axis ----------------------------------===//

#include "test/random/Generator.h"

#include "test/random/Coverage.h"

#include "runtime/base/Format.h"

using namespace kvc;
using namespace kvc::random;

Value Generator::floats(Type type, int spend) {
  return earlierOr(type, spend, &Generator::makeFloats);
}

Value Generator::makeFloats(Type type, int spend) {
  switch (type.dims) {
  case Dims::Scalar:
    return scalarFloat(spend);
  case Dims::Heads:
    return headFloats(type, spend);
  case Dims::HeadChannels:
    return channelFloats(type, spend);
  case Dims::Tokens:
    return scores(type, spend);
  case Dims::Rows:
    return rows(type, spend);
  case Dims::Vectors:
    return vectors(type, spend);
  }
  return {};
}

/// Without any operand of tensor type, where that is possible.
Value Generator::leaf(Type type) { return makeFloats(type, 0); }

Value Generator::scalarFloat(int spend) {
  Type type{Element::F32, Dims::Scalar};
  if (spend <= 0 || random.chance(30))
    return number(random.of(
        {0.0, 0.25, 0.5, 1.0, 2.0, -1.0, 0.1, 1e-4, 3.7, -0.3, 1e-10}));
  if (random.chance(50))
    return elementwise(type, spend);
  Value whole = ints(type.of(Element::Index), spend - 1);
  Value narrow = whole;
  narrow.type = type.of(Element::I32);
  narrow = out.add(rt::formatted("arith.{} {} : index to i32",
                                 random.of({"index_cast", "index_castui"}),
                                 whole.name),
                   narrow);
  Value result;
  result.type = type;
  result.positive = whole.least >= 0;
  return out.add(rt::formatted("arith.{} {} : i32 to f32",
                               random.of({"uitofp", "sitofp"}), narrow.name),
                 result);
}

/// The same number everywhere.
Value Generator::constantFloats(Type type) {
  if (type.dims == Dims::Scalar)
    return scalarFloat(0);
  double value = random.of({0.0, 0.25, 0.5, 1.0, 2.0, -1.0, 0.1, 1e-4, 10.0});
  bool computed = random.chance(25);
  Value result;
  result.type = type.dims == Dims::Rows ? type.with(Axis::OneHead) : type;
  if (type.dims == Dims::Rows)
    result.type.window = Type::repeated;
  result.positive = value >= 0;
  result.bounded = true;
  if (type.dims == Dims::Tokens || type.dims == Dims::Heads)
    result.type.heads = Axis::OneHead;
  if (type.dims != Dims::Vectors && !computed && random.chance(60))
    return out.add(rt::formatted("kvc.fill {:e} : {}", value, type.text()),
                   result);
  Value scalar = computed ? scalarFloat(2) : number(value);
  result.positive = scalar.positive;
  result.bounded = scalar.bounded;
  return out.add(
      rt::formatted("kvc.broadcast {}{} : f32 to {}", scalar.name,
                    type.dims == Dims::Vectors ? " along channels" : "",
                    type.text()),
      result);
}

/// Something that is the same for every query: a number, or a value per token.
Value Generator::repeatedRows(Type type, int spend) {
  if (random.chance(40))
    return constantFloats(type);
  Value value =
      floats({Element::F32, Dims::Tokens, headsUpTo(type.heads)}, spend);
  std::string body = rt::formatted("kvc.broadcast {} : {} to {}", value.name,
                                   value.type.text(), type.text());
  value.type = type.with(value.type.heads);
  value.type.window = Type::repeated;
  return out.add(body, value);
}

Value Generator::reduce(const std::string &axis, Value value, Type type) {
  std::string kind = random.of(reductions(axis));
  Value result = value;
  result.type = type;
  if (type.dims != Dims::Rows) {
    result.reach = 0;
    result.points = 1;
  }
  if (type.dims != Dims::Vectors)
    result.cut = 0;
  switch (*symbolizeReduceKind(kind)) {
  case ReduceKind::Max:
  case ReduceKind::Min:
  case ReduceKind::Mean:
    break;
  case ReduceKind::Sum:
    result.bounded = false;
    break;
  case ReduceKind::Std:
    result.positive = true;
    break;
  }
  return out.add(rt::formatted("kvc.reduce {} {} {} : {} -> {}", kind, axis,
                               value.name, value.type.text(), type.text()),
                 result);
}

Value Generator::headFloats(Type type, int spend) {
  Type tokens{Element::F32, Dims::Tokens, type.heads};
  bool statistics = spend > 0 || type.heads != Axis::OneHead;
  if (spend > 2 && random.chance(35))
    return elementwise(type, spend);
  if (statistics)
    return reduce("tokens", floats(tokens, spend - 1), type);
  return constantFloats(type);
}

Value Generator::channelFloats(Type type, int spend) {
  Type from{Element::F32, Dims::Vectors, Axis::KVHeads};
  Value value = floats(from, spend - 1);
  if (value.cut) // of segments: reduced over channels first
    value = vectors(from, 0);
  return reduce("tokens", value, type);
}

Value Generator::pool(Value value, bool ofRows) {
  int64_t width = 1 + 2 * (ofRows ? random.below(3) : random.below(6));
  if (random.chance(5))
    width = ofRows ? 25 : random.of<int64_t>({31, 63, 255});
  // A pool of pools of rows computes all their points.
  if (ofRows && (value.reach + width / 2 > 12 ||
                 value.points * width > (random.chance(3) ? 400 : 50)))
    return value;
  std::string kind = random.of({"max", "mean"});
  std::string padding =
      kind == "mean" && random.chance(40) ? " count_padding" : "";
  std::string size = index(width).name;
  value.reach += ofRows ? width / 2 : 0;
  value.points *= ofRows ? width : 1;
  return out.add(rt::formatted("kvc.pool {} {} width({}){} : {}", kind,
                               value.name, size, padding, value.type.text()),
                 value);
}

Value Generator::segment(Value value) {
  bool ofVectors = value.type.dims == Dims::Vectors;
  int64_t length = cutLength, from = cutFrom;
  if (!ofVectors && random.chance(40)) {
    length = random.of<int64_t>({1, 3, 8, 10, 32, 33, 50, 1024});
    from = random.of<int64_t>({0, 2, 5, 40, 1000});
  }
  std::vector<std::string> kinds = segmentKinds(ofVectors);
  if (!ofVectors)
    kinds.push_back("rank"); // twice as often
  std::string kind = random.of(kinds);
  bool next = random.chance(30) && !(ofVectors && value.cut);
  std::string size = index(length).name, first = index(from).name;
  if (!ofVectors && random.chance(15)) {
    std::string all =
        out.add("kvc.length",
                {.type = {Element::Index, Dims::Scalar}, .most = 300})
            .name;
    first = out.add(rt::formatted("arith.remui {}, {} : index", all, size),
                    {.type = {Element::Index, Dims::Scalar}, .most = 300})
                .name;
  }
  value.cut = ofVectors;
  switch (*symbolizeSegmentKind(kind)) {
  case SegmentKind::Max:
  case SegmentKind::Min:
  case SegmentKind::Mean:
    break;
  case SegmentKind::Sum:
    value.bounded = false;
    break;
  case SegmentKind::MinMax:
    value.positive = false;
    break;
  case SegmentKind::Softmax:
    value.positive = value.bounded = true;
    break;
  case SegmentKind::Rank:
    value.positive = true;
    break;
  }
  return out.add(rt::formatted("kvc.segment {}{} {} length({}) from({}) : {}",
                               kind, next ? " next" : "", value.name, size,
                               first, value.type.text()),
                 value);
}

/// Rows of one of the windows, or of all queries.
Type Generator::rowsType(Axis heads) {
  Type type{Element::F32, Dims::Rows, heads, random.of(windows)};
  if (heads != Axis::OneHead && taste[AllQueries] &&
      random.chance(25 * taste[AllQueries]))
    type.window = Type::allQueries;
  return type;
}

Value Generator::scores(Type type, int spend) {
  if (type.heads == Axis::OneHead && random.chance(spend > 0 ? 40 : 100))
    return scoresOfOneHead(type, spend);
  Type queryHeads = type.with(Axis::QueryHeads);
  bool ofKV = type.heads == Axis::KVHeads, ofQ = type.heads == Axis::QueryHeads;
  bool more = spend > 0;
  enum {
    Window,
    ProjectedNorm,
    Norm,
    Group,
    Channels,
    OfHeads,
    Pool,
    Segment,
    FromHeads,
    Select,
    Elementwise,
    FromInts,
    FromMask
  };
  switch (random.weighted({
      2 + 3 * taste[Attention],
      ofQ ? taste[ProjectedNorms] : 0,
      ofKV ? 1 + 3 * taste[Norms] : 0,
      ofKV ? 2 * more + 2 * taste[Attention] : 0,
      ofQ ? 0 : 3 * taste[VectorOps],
      ofKV || ofQ ? 0 : 4 * more * taste[HeadReductions],
      2 * more * taste[Pools],
      2 * more * taste[Segments],
      (spend > 1) * taste[TokenStatistics],
      (spend > 2) * taste[Masks],
      6 * (spend > 1),
      (spend > 1) * taste[Integers],
      (spend > 1) * taste[Masks],
  })) {
  case Window:
    if (!merged)
      return reduce("queries", floats(rowsType(type.heads), spend - 1), type);
    if (!ofQ)
      return ofKV ? ofMembers() : scoresOfOneHead(type, spend);
    [[fallthrough]];
  case ProjectedNorm:
    return out.add(rt::formatted("kvc.projected_norm {} : {}",
                                 random.of({"l1", "l1", "l2"}), type.text()),
                   {.type = type, .positive = true});
  case Norm:
    return out.add(rt::formatted("kvc.norm {} {} : {}", random.of({"l1", "l2"}),
                                 side(), type.text()),
                   {.type = type, .positive = true});
  case Group:
    return reduce("group", floats(queryHeads, spend - 1), type);
  case Channels:
    return reduce("channels",
                  floats({Element::F32, Dims::Vectors, type.heads}, spend - 1),
                  type);
  case OfHeads:
    return scoresOfOneHead(type, spend);
  case Pool:
    return pool(floats(type, spend - 1), false);
  case Segment:
    return segment(floats(type, spend - 1));
  case FromHeads: {
    Value value = floats({Element::F32, Dims::Heads, type.heads}, spend - 1);
    std::string body = rt::formatted("kvc.broadcast {} : {} to {}", value.name,
                                     value.type.text(), type.text());
    value.type = type;
    return out.add(body, value);
  }
  case Select:
    return selectOf(type, spend);
  case FromInts: {
    Value value = ints(type.of(Element::I32), spend - 1);
    std::string op = value.least < 0
                         ? "sitofp"
                         : random.of<std::string>({"uitofp", "sitofp"});
    return out.add(rt::formatted("arith.{} {} : {} to {}", op, value.name,
                                 value.type.text(), type.text()),
                   {.type = type, .positive = value.least >= 0});
  }
  case FromMask: {
    Value value = masks(type.of(Element::I1), spend - 1);
    return out.add(rt::formatted("arith.uitofp {} : {} to {}", value.name,
                                 value.type.text(), type.text()),
                   {.type = type, .positive = true, .bounded = true});
  }
  default:
    return elementwise(type, spend);
  }
}

Value Generator::scoresOfOneHead(Type type, int spend) {
  enum { Position, KeptLayers, Heads, Constant, Window };
  bool more = spend > 0;
  switch (random.weighted({1 + 2 * taste[Positions], 2 * taste[State],
                           more + 3 * more * taste[HeadReductions], 1,
                           taste[RowHeads]})) {
  case Position: {
    bool end = random.chance(40);
    Value position =
        out.add(rt::formatted("kvc.position{} : {}", end ? " from_end" : "",
                              type.of(Element::I32).text()),
                {.type = type.of(Element::I32), .most = 300});
    return out.add(rt::formatted("arith.uitofp {} : {} to {}", position.name,
                                 position.type.text(), type.text()),
                   {.type = type, .positive = true});
  }
  case KeptLayers:
    return out.add(rt::formatted("kvc.kept_layers{} : {}",
                                 random.chance(50) ? " share" : "",
                                 type.text()),
                   {.type = type, .positive = true, .bounded = true});
  case Heads:
    return reduce("heads",
                  floats(type.with(random.of(
                             {Axis::QueryHeads, Axis::KVHeads, Axis::KVHeads})),
                         spend - 1),
                  type);
  case Window:
    if (merged)
      return reduce("heads", ofMembers(), type);
    return reduce("queries", floats(rowsType(Axis::OneHead), spend - 1), type);
  default:
    return constantFloats(type);
  }
}

Value Generator::rows(Type type, int spend) {
  if (type.heads != Axis::QueryHeads) {
    if (spend > 2 && taste[RowMath] && random.chance(40))
      return elementwise(type, spend);
    if (spend > 1 && taste[RowPools] && random.chance(20 * taste[RowPools]))
      return pool(floats(type, spend - 1), true);
    if (type.heads == Axis::KVHeads)
      return reduce("group", floats(type.with(Axis::QueryHeads), spend - 1),
                    type);
    return reduce(
        "heads",
        floats(type.with(random.of({Axis::QueryHeads, Axis::KVHeads})),
               spend - 1),
        type);
  }
  if (spend > 1 && random.chance(12 * taste[RowMath]))
    return random.chance(10) ? selectOf(type, spend) : elementwise(type, spend);
  if (spend > 1 && random.chance(15 * taste[RowPools]))
    return pool(floats(type, spend - 1), true);
  std::string last = type.window == Type::allQueries
                         ? out.add(carries ? "kvc.new_queries" : "kvc.length",
                                   {.type = {Element::Index, Dims::Scalar},
                                    .least = carries ? 0 : 1,
                                    .most = 300})
                               .name
                         : index(type.window).name;
  bool logits = random.chance(12 * taste[Logits]);
  bool rounded = !logits && random.chance(15 * taste[Rounded]);
  return out.add(rt::formatted("kvc.attention last({}){}{} : {}", last,
                               rounded ? " rounded" : "",
                               logits ? " logits" : "", type.text()),
                 {.type = type, .positive = !logits, .bounded = !logits});
}

Value Generator::vectors(Type type, int spend) {
  if (spend > 0 && random.chance(18 * taste[VectorSegments]) &&
      type.heads == Axis::KVHeads)
    return segment(floats(type, spend - 1));
  if (spend > 1 && random.chance(35))
    return elementwise(type, spend);
  if (spend > 1 && random.chance(12)) {
    Value value = floats({Element::F32, Dims::Tokens, type.heads}, spend - 1);
    std::string body =
        rt::formatted("kvc.broadcast {} along channels : {} to {}", value.name,
                      value.type.text(), type.text());
    value.type = type;
    return out.add(body, value);
  }
  if (type.heads == Axis::OneHead) {
    Value value = floats(type.with(Axis::KVHeads), spend - 1);
    if (value.cut && !random.chance(3)) // of segments: over channels first
      value = vectors(type.with(Axis::KVHeads), 0);
    return reduce("heads", value, type);
  }
  if (spend > 1 && random.chance(15)) {
    Value value =
        floats({Element::F32, Dims::HeadChannels, Axis::KVHeads}, spend - 1);
    std::string body = rt::formatted("kvc.broadcast {} : {} to {}", value.name,
                                     value.type.text(), type.text());
    value.type = type;
    return out.add(body, value);
  }
  return out.add(rt::formatted("kvc.vectors {} : {}", side(), type.text()),
                 {.type = type, .bounded = true});
}
