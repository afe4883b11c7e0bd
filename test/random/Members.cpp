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
      (random.chance(50) ? index(random.of(windows)) : newQueries()).name;
  Value weights = out.add(
      rt::formatted("kvc.attention last({}) members : {}", last, rows.text()),
      {.type = rows});
  // Of no queries a mean is NaN, which all sums would be from then on.
  Value sums = reduced(carries ? "sum" : random.of({"sum", "mean", "max"}),
                       "queries", weights, hidden);
  Value each =
      reduced(random.of({"mean", "max", "sum"}), "group", sums, hidden);
  return reduced(random.of({"sum", "sum", "max", "mean", "min"}), "members",
                 each, scores);
}
