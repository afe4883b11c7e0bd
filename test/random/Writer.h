//===- Writer.h - a policy's text, and the values it has so far -----------===//

#ifndef KVC_TEST_RANDOM_WRITER_H
#define KVC_TEST_RANDOM_WRITER_H

#include "dialect/KVCAxes.h"
#include "test/random/Random.h"

#include <optional>
#include <string>

namespace kvc::random {

enum class Element { F32, I32, I1, Index };

/// The axes behind the heads.
enum class Dims {
  Scalar,
  Heads,        // a value per head
  HeadChannels, // and channel
  Tokens,       // and past token
  Rows,         // and query and past token
  Vectors       // and channel and past token
};

struct Type {
  Element element;
  Dims dims;
  Axis heads = Axis::OneHead;
  /// Rows only: how many queries, allQueries or repeated.
  int64_t window = 0;

  static constexpr int64_t allQueries = 0;
  /// One row that every query repeats.
  static constexpr int64_t repeated = -1;

  bool operator==(const Type &) const = default;
  Type of(Element other) const {
    return dims == Dims::Scalar ? Type{other, dims}
                                : Type{other, dims, heads, window};
  }
  Type with(Axis other) const { return {element, dims, other, window}; }
  /// As policies write it, without axes.
  std::string text() const;
};

/// A value of the policy, and what is known of its numbers.
struct Value {
  std::string name = "";
  Type type = {Element::F32, Dims::Scalar};
  /// Integers lie between these.
  int64_t least = 0, most = 0;
  /// Floats are 0 or more; small enough for an exponential.
  bool positive = false, bounded = false;
  /// Counts: at most the past of any sequence.
  bool withinPast = false;
  /// Rows: how far the pools on the way reach to each side, and of how many
  /// points one is made.
  int64_t reach = 0, points = 1;
  /// Vectors: how their segments are cut; 0: made without segments.
  int cut = 0;
};

class Writer {
public:
  /// Adds "%n = op : signature"; `body` is what stands behind the equals sign.
  Value add(const std::string &body, Value value);
  /// A line without a result.
  void line(const std::string &body);
  /// An earlier value of the type.
  std::optional<Value> earlier(Random &random, const Type &type) const;
  /// The whole module.
  std::string text() const;
  size_t size() const { return values.size(); }

private:
  std::string lines;
  std::vector<Value> values;
};

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_WRITER_H
