//===- Problem.h - seeded inputs of the matrix test -----------------------===//

#ifndef KVC_TEST_MATRIX_PROBLEM_H
#define KVC_TEST_MATRIX_PROBLEM_H

#include "dialect/KVCDialect.h"
#include "dialect/reference/Meaning.h"
#include "executor/eviction/Evictor.h"

#include <random>
#include <span>

namespace kvc::test {

/// How keys are made.
enum class Keys { Random, Repeated, Equal };
/// What is put into some vectors.
enum class Special { None, Zeros, Infinities, NaNs };

struct Shape {
  int64_t kvHeads, group, headDim;
  kvc_dtype dtype;
};

/// How many of a prompt's queries a policy is handed: all if it reads them all, else
/// a few more than its widest window has.
int64_t queriesFor(PolicyOp policy, int64_t tokens);

/// One sequence: the bytes the kernels read and the same numbers in double.
struct Problem {
  Problem(const Shape &shape, int64_t tokens, int64_t budget, Keys keys,
          uint64_t seed, int64_t queries, Special special = Special::None);

  rt::LayerSequence sequence() const;
  /// The importance of heads of a model of `layers`, with zeros, equal entries
  /// and one head that wants more than it can have.
  static std::vector<float> table(int64_t layers, int64_t qHeads);

  Shape shape;
  reference::Layer layer;
  std::vector<std::byte> q, k, v, kRaw, wo;
  std::vector<float> lse; // natural, of all queries
  /// What rows carry, in the policy's order, [Hkv, T] each; also in layer.rowStates.
  std::vector<std::vector<float>> states;
  /// Rows carry numbers by these names, and some of the queries are new.
  void carry(llvm::ArrayRef<mlir::StringAttr> names, uint64_t seed);
  /// Of a cache of rows: how many rows each head has, and whose; head after head.
  std::vector<int32_t> lengths, positions;
  /// Heads have rows of these tokens only, [Hkv][T], behind carry().
  void hold(const std::vector<std::vector<bool>> &rows);
  /// And rows represent others, too: a merged cache, behind hold(). Keys are those before
  /// RoPE, by `angles` [T, d / 2, 2].
  void merge(uint64_t seed);
  rt::MemberTable members;
  std::vector<float> angles;

private:
  struct Held {
    std::vector<std::byte> k, v, kRaw;
    std::vector<std::vector<float>> states;
  };
  Held held; // what `sequence` hands over in the place of all tokens
  void sumExponentials();
};

/// What layer.round is for a type.
std::function<double(double, int64_t)> roundingTo(kvc_dtype dtype);

/// Elements of a type as double.
std::vector<double> widen(std::span<const std::byte> bytes, kvc_dtype dtype);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_PROBLEM_H
