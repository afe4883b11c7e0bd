//===- Members.cpp - what a merged cache has of its members ---------------===//

#include "runtime/base/Format.h"
#include "test/random/Generator.h"

using namespace kvc;
using namespace kvc::random;

/// Keys of merged rows are those before RoPE.
std::string Generator::side() {
  return merged ? random.of<std::string>({"value", "raw_key"})
                : random.of<std::string>({"key", "value", "raw_key"});
}

/// A number of each row, from the attention that its members get. What is on the way has
/// types that nobody asks for.
Value Generator::ofMembers() {
  Type scores{Element::F32, Dims::Tokens, Axis::KVHeads};
  Type rows = scores.with(Axis::QueryHeads), hidden = scores;
  rows.dims = Dims::Rows;
  rows.window = hidden.window = 1;
  std::string last =
      random.chance(50)
          ? index(random.of(windows)).name
          : out.add("kvc.new_queries", {.type = {Element::Index, Dims::Scalar},
                                        .least = 0,
                                        .most = 300})
                .name;
  std::string weights =
      out.add(rt::formatted("kvc.attention last({}) members : {}", last,
                            rows.text()),
              {.type = rows})
          .name;
  auto reduced = [&](const char *kind, const char *axis,
                     const std::string &value, const Type &from) {
    return out
        .add(rt::formatted("kvc.reduce {} {} {} : {} -> {}", kind, axis, value,
                           from.text(), scores.text()),
             {.type = hidden})
        .name;
  };
  // Of no queries a mean is NaN, which all sums would be from then on.
  std::string sums =
      reduced(carries ? "sum" : random.of({"sum", "mean", "max"}), "queries",
              weights, rows);
  std::string each =
      reduced(random.of({"mean", "max", "sum"}), "group", sums, scores);
  return out.add(rt::formatted("kvc.reduce {} members {} : {} -> {}",
                               random.of({"sum", "sum", "max", "mean", "min"}),
                               each, scores.text(), scores.text()),
                 {.type = scores, .positive = true, .bounded = true});
}
