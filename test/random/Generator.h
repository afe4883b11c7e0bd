//===- Generator.h - a random policy that is well typed -------------------===//
//
// Top down: a value of a type is asked for, with a number of ops to spend on
// it, and an op that gives this type is drawn. Axes and what ops ask of their
// operands are kept by construction, so that few policies are refused.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_RANDOM_GENERATOR_H
#define KVC_TEST_RANDOM_GENERATOR_H

#include "test/random/Writer.h"

namespace kvc::random {

class Generator {
public:
  /// `merged`: of a merged cache, whose rows represent members.
  explicit Generator(uint64_t seed, bool merged = false);
  /// MLIR text, level policy. Once only.
  std::string make();

private:
  /// What a seed likes: few things, often, so that they meet.
  enum Taste {
    Attention,
    AllQueries,
    Logits,
    Rounded,
    Norms,
    ProjectedNorms,
    VectorOps,
    Positions,
    State,
    RowMath,
    RowPools,
    RowHeads,
    Pools,
    Segments,
    VectorSegments,
    TokenStatistics,
    HeadReductions,
    Masks,
    Integers,
    OddMath,
    tastes
  };

  Random random;
  Writer out;
  std::vector<int64_t> taste;
  /// Two lengths of windows, and how segments of vectors are cut.
  std::vector<int64_t> windows;
  int64_t cutLength, cutFrom;
  /// Integers may be below 0 and wrap.
  bool wild;
  /// Rows carry numbers; who reads many queries then reads the new ones.
  bool carries;
  std::string carried; // of kvc.keep
  /// All rows merge. Members attend, and keys are those before RoPE.
  const bool merged;

  // Generator.cpp
  Value param(const std::string &text, Type type, Value value);
  Value index(int64_t number);
  Value number(double value);
  Value fraction(const std::string &text);
  Value share();
  Value earlierOr(const Type &type, int spend,
                  Value (Generator::*make)(Type, int));
  std::pair<int, int> split(int spend);
  Axis headsUpTo(Axis most);
  std::pair<Type, Type> operandTypes(Type result);

  // Values.cpp: floats.
  Value floats(Type type, int spend);
  Value makeFloats(Type type, int spend);
  Value scalarFloat(int spend);
  Value headFloats(Type type, int spend);
  Value channelFloats(Type type, int spend);
  Value scores(Type type, int spend);
  Value scoresOfOneHead(Type type, int spend);
  Value rows(Type type, int spend);
  Value vectors(Type type, int spend);
  Value constantFloats(Type type);
  Value repeatedRows(Type type, int spend);
  Value reduce(const std::string &axis, Value value, Type type);
  Value pool(Value value, bool ofRows);
  Value segment(Value value);
  Type rowsType(Axis heads);
  Value leaf(Type type);

  // Elementwise.cpp
  Value elementwise(Type type, int spend);
  Value unary(const char *op, Value value);
  Value binary(const char *op, Value a, Value b, Type type);
  Value positiveForm(Value value);
  Value boundedForm(Value value);
  Value selectOf(Type type, int spend);
  Value ints(Type type, int spend);
  Value makeInts(Type type, int spend);
  Value intLeaf(Type type);
  Value intBinary(Type type, int spend);
  Value masks(Type type, int spend);
  Value makeMasks(Type type, int spend);

  // Selection.cpp
  Value counts(int spend);
  Value makeCounts(Type type, int spend);
  Value uniform();
  Value tableCounts();
  Value wrappedCount();
  Value topk(Value score, Value count);
  Value protectedTokens();
  Value forced(Value mask, Value score);
  Value rankable(int spend);
  Value keptMask(int spend);
  void keepMerged(int spend, const std::string &protect);

  // Members.cpp
  std::string side();
  Value ofMembers();

  // Carried.cpp
  void makeCarried();
  Value newQueries();
  Value reduced(const std::string &kind, const std::string &axis,
                const Value &value, const Type &type);
  Value drawn();
};

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_GENERATOR_H
