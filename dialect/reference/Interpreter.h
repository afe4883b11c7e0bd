//===- Interpreter.h - a policy, run op by op in double -------------------===//

#ifndef KVC_DIALECT_REFERENCE_INTERPRETER_H
#define KVC_DIALECT_REFERENCE_INTERPRETER_H

#include "dialect/KVCDialect.h"
#include "dialect/reference/Meaning.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace kvc::reference {

struct Kept {
  /// Kept tokens of each KV head, ascending.
  std::vector<std::vector<int64_t>> tokens;
  /// What the top-k that marks the kept tokens ranked, or where several do together
  /// the last, [Hkv][past]; NaN where a head has no row in its past; empty if nothing
  /// was.
  std::vector<std::vector<double>> scores;
  int64_t past = 0;
  /// Of each KV head the tokens of those that were ranked: none of a head that keeps
  /// all its rows.
  std::vector<std::vector<bool>> ranked;
  /// What rows of a merging policy represent; unset where it does not merge.
  struct Merge {
    std::vector<const std::vector<double> *> sides; // of the layer
    Tensor sources, centres, destination, weight;   // [Hkv][past]
    double least;
    bool sharePositions;
  };
  std::optional<Merge> merge;
  /// Of a merged cache what is left of its members, ascending by position, and the
  /// kept token that represents each: [Hkv].
  struct Member {
    int64_t row, position;
    double norm;
  };
  std::vector<std::vector<Member>> members;
  bool atMost = false; // of these some may have been sent away
  /// What rows carry, in the policy's order: a number for each of `tokens`, members'
  /// added up; and the number of each token that has a row, [Hkv][T].
  struct Carried {
    std::string name;
    std::vector<std::vector<double>> numbers;
    Tensor ofTokens;
  };
  std::vector<Carried> carried;
};

/// Sees the result of every op as it is made, and may change it: to look at
/// values in the middle of a policy, or to learn what rounding does to its end.
using Watch = std::function<void(
    mlir::Operation *, llvm::ArrayRef<const Tensor *> operands, Tensor &)>;

/// Erases what nobody uses, as the compiler does: what is not there has no say in what a
/// policy is, whether layers share its budget for instance.
void eraseUnused(PolicyOp policy);

/// Runs a policy that kvc-check-policy lets pass, its parameters bound or with their
/// defaults, on one layer. On an op that has no meaning here an error is emitted at it.
mlir::FailureOr<Kept> interpret(PolicyOp policy, const Layer &layer,
                                const Watch &watch = {});

} // namespace kvc::reference

#endif // KVC_DIALECT_REFERENCE_INTERPRETER_H
