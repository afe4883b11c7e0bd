//===- Carried.cpp - what rows of a random policy carry -------------------===//

#include "runtime/base/Format.h"
#include "test/random/Generator.h"

using namespace kvc;
using namespace kvc::random;

static const Type ofRows{Element::F32, Dims::Tokens, Axis::KVHeads};

Value Generator::newQueries() {
  return out.add(
      "kvc.new_queries",
      {.type = {Element::Index, Dims::Scalar}, .least = 0, .most = 300});
}

/// Of what is 0 or more.
Value Generator::reduced(const std::string &kind, const std::string &axis,
                         const Value &value, const Type &type) {
  return out.add(rt::formatted("kvc.reduce {} {} {} : {} -> {}", kind, axis,
                               value.name, value.type.text(), type.text()),
                 {.type = type, .positive = true});
}

/// What new queries, or those of a window, give each row.
Value Generator::drawn() {
  if (merged)
    return ofMembers();
  Type rows = ofRows.with(Axis::QueryHeads);
  rows.dims = Dims::Rows;
  rows.window = random.chance(75) ? Type::allQueries : windows[0];
  std::string last = (rows.window ? index(rows.window) : newQueries()).name;
  Value weights =
      out.add(rt::formatted("kvc.attention last({}) : {}", last, rows.text()),
              {.type = rows, .positive = true, .bounded = true});
  // Of no queries a mean is NaN, which all sums would be from then on.
  Value sums =
      reduced("sum", "queries", weights, ofRows.with(Axis::QueryHeads));
  return reduced(random.of({"mean", "max", "sum"}), "group", sums, ofRows);
}

/// One or two numbers: they become values that the rest of the policy may use.
void Generator::makeCarried() {
  std::string list;
  for (int64_t i = 0, count = random.between(1, 2); i < count; ++i) {
    Value before =
        out.add(rt::formatted("kvc.row_state \"s{}\" : {}", i, ofRows.text()),
                {.type = ofRows});
    Value more =
        random.chance(60) ? drawn()
        : random.chance(50)
            ? out.add("kvc.norm l2 " +
                          (merged ? side()
                                  : random.of<std::string>({"key", "value"})) +
                          " : " + ofRows.text(),
                      {.type = ofRows, .positive = true})
            : constantFloats(ofRows);
    Value after = out.add(
        rt::formatted("{} {}, {} : {}",
                      random.of({"arith.addf", "arith.addf", "arith.maximumf"}),
                      before.name, more.name, ofRows.text()),
        {.type = ofRows});
    list += rt::formatted("{}\"s{}\" = {} : {}", i ? ", " : "", i, after.name,
                          ofRows.text());
  }
  carried = " carry(" + list + ")";
}
