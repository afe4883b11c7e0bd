//===- Compile.h - a policy through the whole compiler, in process --------===//

#ifndef KVC_TEST_RANDOM_COMPILE_H
#define KVC_TEST_RANDOM_COMPILE_H

#include "test/matrix/Problem.h"
#include "test/random/Coverage.h"

#include <optional>

namespace kvc::random {

struct CompileOptions {
  test::Shape shape;
  kvc_cache_kind cache = KVC_DENSE, into = KVC_DENSE;
  bool pruneNorms = false;
  std::optional<int64_t> listsAbove; // of convert-kvc-to-gpu
  /// Where the library goes.
  std::string library;
  /// Emit PTX too and look for what no driver could resolve.
  bool ptx = false;
  /// Assemble it with this program; empty: not.
  std::string ptxas;
  /// Put the PTX of these chips into the library.
  std::vector<std::string> chips;
};

struct Compiled {
  /// The one line with which the policy was refused; empty: it was compiled.
  std::string refused;
  /// What is wrong with how it was refused or with the PTX.
  std::vector<std::string> faults;
  Cells cells;
  /// Where in the text the top-k stands whose scores the kernels show.
  std::optional<unsigned> rankedLine;
  /// Norms are bounded first: kvc-prune-norms has found some.
  bool bounded = false;
  double ptxSeconds = 0;
};

Compiled compile(mlir::MLIRContext &context, const std::string &policy,
                 const CompileOptions &options);

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_COMPILE_H
