//===- Passes.td - from a policy to kernels, in the order they run --------===//

#ifndef KVC_PASSES_TD
#define KVC_PASSES_TD

include "mlir/Pass/PassBase.td"

def BindParams : Pass<"kvc-bind-params", "::kvc::PolicyOp"> {
  let summary = "replace parameters by constants";
  let description = [{
    Every `kvc.param` becomes a constant: the default, or the value given as
    `NAME=VALUE`. A name that no parameter has and a value that is no number of
    the parameter's type are errors.

    Example: test/passes/kvc-bind-params.mlir
  }];
  let options = [
    ListOption<"values", "values", "std::string", "NAME=VALUE overrides">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def FoldScalars : Pass<"kvc-fold-scalars", "::kvc::PolicyOp"> {
  let summary = "compute what is known when the policy is compiled";
  let description = [{
    Sizes that are computed from parameters become constants, `kvc.fill` becomes
    a `kvc.broadcast`, and ops without users go. Tensors stay as they are written.

    Example: test/passes/kvc-fold-scalars.mlir
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def CheckPolicy : Pass<"kvc-check-policy", "::kvc::PolicyOp"> {
  let summary = "check what no single op can see";
  let description = [{
    Runs after `kvc-bind-params`, changes nothing. It checks that window and
    pool sizes are constants in range, that only ops with a meaning per token
    appear, and that element types are those that kernels compute with. What
    passes here can be lowered; the backend aborts on what it cannot select.

    Example: test/passes/kvc-check-policy.mlir
  }];
}

def PruneNorms : Pass<"kvc-prune-norms", "::kvc::PolicyOp"> {
  let summary = "compute norms behind the projection only where they can decide";
  let description = [{
    Rewrites a top-k by `x * N`, `N` a group reduction of `kvc.projected_norm l1`:
    a bound for all tokens, the exact norm for the best of them, and then for
    those whose bound reaches the smallest of these. The kept set never changes;
    tokens that cannot be kept have the score -inf. Runs with `--prune-norms`.

    Example: test/passes/kvc-prune-norms.mlir
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def InferAxes : Pass<"kvc-infer-axes", "::kvc::PolicyOp"> {
  let summary = "write the axes of every tensor into its type";
  let description = [{
    Forward over the body. Elementwise ops join the head axes of their operands;
    where they differ a `kvc.broadcast` is inserted.

    Example: test/passes/kvc-infer-axes.mlir
  }];
}

def FormKernels : Pass<"kvc-form-kernels", "::kvc::PolicyOp"> {
  let summary = "fuse the policy into kernels";
  let description = [{
    Gives every op the earliest stage in which it can run. Stages come in
    sevens: `sequence` kernels, one block per sequence; `columns` kernels,
    parallel over tokens; `segments` kernels, one block per segment of the past;
    `rows` kernels, one block per KV head; `spans` kernels, one block per 512
    tokens of a KV head, 16 at most; `nearest` kernels, parallel over the tokens that look
    for another; `norms` kernels, parallel over listed tokens and query heads:

    - allocation among all heads, by scores or by a table: sequence;
    - norms, and what is reduced over queries or over channels: columns; a
      later one where rows need what is known only behind all rows;
    - what sets a token against its segment or the next one: segments; where the
      next segment's values are computed themselves, or the past is cut in
      another way, the segments stage after;
    - parts of what is reduced over tokens, numbers of heads: the columns kernel that
      makes these, unless rows are pooled or reduced over all heads, else spans; what
      combines them: spans. A maximum and the sum of exponentials below it have the
      same parts;
    - other statistics over tokens, tables of members: rows;
    - pooling, heads chosen by a statistic, top-k and the list of kept tokens:
      spans. A selection takes three of them: first digits are counted where the
      scores are, candidates listed in the next, and the threshold is found by
      each block of the one after; allocation by scores is given the same;
    - similarity of tokens with tokens: nearest;
    - norms behind the projection of marked tokens: norms, behind the spans kernel
      that lists them;
    - what is pointwise in tokens: where its operands are;
    - a reduction over all heads of something made in a rows or spans kernel:
      the next columns stage.

    In front of these are two stages without a window: what rows carry, every row's,
    with what is made from that alone, row by row; and before it what the members of
    merged rows have, behind a `keys` kernel that makes their keys.

    Ops of one stage are one kernel. What costs nothing to compute again
    (constants, positions, allocations) is cloned into its users' kernels.
    A reduction of vectors over tokens gets a `parts` kernel, parallel over
    splits of the tokens, in front of the rows kernel that combines its parts.
    A norm that does nothing but scale the very vectors is made again by each
    kernel that reduces these, which has the row at hand. Norms behind the
    projection have a columns kernel without attention rows, whose warps have
    registers for two tiles of values, and in which nothing else walks all heads.
    A value that stays inside a kernel is never stored; a remark tells the
    bytes saved. Values with a query or a channel axis have no stage: each
    kernel that reduces them computes them, so rows that wait for something made
    of themselves read K once more. Rows of one head that wait for the rows of
    all heads are an error. What blocks add to is set to 0 by a kernel in front;
    where there is none, one is made that does nothing else.

    Example: test/passes/kvc-form-kernels.mlir
  }];
}

def CheckKernels : Pass<"kvc-check-kernels", "::kvc::PolicyOp"> {
  let summary = "check what kernel builders take for granted";
  let description = [{
    Changes nothing. Level `fused` can be written by hand, so it is checked like
    level `policy`: ops and constants, axes and windows, operands that other
    kernels make, values that must have been stored, what one launch of a kind
    can run, and the list of kept tokens at the end.

    Example: test/passes/kvc-check-kernels.mlir
  }];
}

def PlanScratch : Pass<"kvc-plan-scratch", "::kvc::PolicyOp"> {
  let summary = "number the scratch buffers and their lives";
  let description = [{
    Each kernel result that is not an output of the policy, and each
    `kvc.store` and table of members, gets a `#kvc.buffer`.

    Example: test/passes/kvc-plan-scratch.mlir
  }];
}

def WritePlan : Pass<"kvc-write-plan", "::kvc::PolicyOp"> {
  let summary = "write what a runtime must know into the policy";
  let description = [{
    Runs after `kvc-plan-scratch`. A fused policy gets a `#kvc.plan`: queries,
    protected tokens, the buffers of the log-sum-exp and of the scores, which kernels
    a given log-sum-exp makes needless, the phase of each kernel, and every buffer with
    its life and its elements. Whatever plan there was goes.

    Example: test/passes/kvc-write-plan.mlir
  }];
}

#endif // KVC_PASSES_TD
