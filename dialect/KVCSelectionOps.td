//===- KVCSelectionOps.td - ops of level policy: from scores to the kept set --===//

#ifndef KVC_SELECTIONOPS_TD
#define KVC_SELECTIONOPS_TD

include "dialect/KVCOps.td"

def KVC_AllocateOp : KVC_TensorOp<"allocate"> {
  let summary = "give every KV head the same share of the past";
  let description = [{
    How many tokens of the past each KV head keeps: `B - min(w, B)`, the number
    that the other allocation ops redistribute.

    Example: `%n = kvc.allocate uniform : tensor<?xi32>`
  }];
  let results = (outs KVC_Counts:$result);
  let assemblyFormat = "`uniform` attr-dict `:` type($result)";
}

def KVC_AllocateLayersOp : KVC_TensorOp<"allocate_layers", [], ["verifyBound"]> {
  let summary = "let the share of a layer fall along a straight line";
  let description = [{
    With `b` the uniform share: the last layer gets `lo = b / ratio`, the first
    `hi = 2b - lo`; if `hi > T - w'` then `hi = T - w'`, `lo = 2b - hi`; layers
    between them lie on the line. Rounded by largest remainder over the layers
    (ties to the smaller), so that all layers together keep `L * b` per head.
    One layer: `b`. Exact: integers over a common denominator (Cai et al. 2024).

    Constraints:
    - C1: `ratio` is a `kvc.fraction` of at least 1 after parameters are bound
      (checked by `kvc-check-policy`).

    Example: `%n = kvc.allocate_layers ratio(%beta) : tensor<?xi32>`
  }];
  let arguments = (ins KVC_Fraction:$ratio);
  let results = (outs KVC_Counts:$result);
  let assemblyFormat = "`ratio` `(` $ratio `)` attr-dict `:` type($result)";
}

def KVC_AllocateHeadsOp : KVC_TensorOp<"allocate_heads",
    [AllTypesMatch<["base", "result"]>],
    ["verifyBound", "verifyFused", "getPreparedMutable", "prepare"]> {
  let summary = "share the heads' budgets by where the best scores are";
  let description = [{
    `f[g]` is the number of KV head `g`'s entries among the `sum(base)` largest of
    all scores of the layer (ties to the smaller token, then to the smaller head;
    NaN below everything). Head `g` gets `(1 - s) * f[g] + s * base[g]`, `s` the
    safeguard, and no more than its past: what is over goes to the others in proportion.
    Rounded once by largest remainder (ties to the smaller head): the total stays
    `sum(base)`, or all heads' past where that is less. A head whose window takes the
    whole budget takes no part. Exact: integers over a common denominator (Feng et al.
    2024).

    At level `fused` what `kvc.list_candidates` makes in another kernel, and the first
    digits that it reads, are operands.

    Constraints:
    - C1: scores and base are per KV head (checked by `kvc-infer-axes`).
    - C2: `safeguard` is a `kvc.fraction` of at most 1 after parameters are bound
      (checked by `kvc-check-policy`).

    Example: `%n = kvc.allocate_heads %score base(%b) safeguard(%s) : tensor<?x?xf32>, tensor<?xi32>`
  }];
  let arguments = (ins KVC_Scores:$score, KVC_Counts:$base,
                       KVC_Fraction:$safeguard,
                       Variadic<AnyRankedTensor>:$candidates);
  let results = (outs KVC_Counts:$result);
  let assemblyFormat = [{
    $score `base` `(` $base `)` `safeguard` `(` $safeguard `)`
    (`candidates` `(` $candidates^ `:` type($candidates) `)`)? attr-dict `:`
    type($score) `,` type($result)
  }];
}

def KVC_AllocateTableOp : KVC_TensorOp<"allocate_table"> {
  let summary = "share budgets among the heads of all layers by a table";
  let description = [{
    Every head of every layer has `base` tokens; the table, one importance for
    each query head of each layer, shares out `shared` tokens more for each head.
    A KV head's importance is the sum of its group's, divided by the sum of the
    table. Heads whose share exceeds the capacity `T - w'` are set to it; what is
    left goes to the others in proportion to their shares (equally if all are 0),
    repeated, and rounded once by largest remainder over all heads of the model
    (ties to the smaller head, then to the smaller layer): the total is
    `L * Hkv * (base + shared)`. Exact for entries of at least 2^-24 of the
    largest; smaller ones lose bits (Fu et al. 2024). Entries must be finite, 0 or
    more, and not all 0.

    Example: `%n = kvc.allocate_table base(%least) shared(%pool) : tensor<?xi32>`
  }];
  let arguments = (ins Index:$base, Index:$shared);
  let results = (outs KVC_Counts:$result);
  let assemblyFormat = [{
    `base` `(` $base `)` `shared` `(` $shared `)` attr-dict `:` type($result)
  }];
}

def KVC_CountMassOp : KVC_TensorOp<"count_mass"> {
  let summary = "count the best tokens that leave little behind";
  let description = [{
    For each KV head the smallest `n` such that all but the `n` largest scores add
    up to at most `all_but`; all tokens where there is none (a negative `all_but`
    that no sum reaches). A NaN adds nothing.

    Constraints:
    - C1: scores are per KV head (checked by `kvc-infer-axes`).

    Example: `%n = kvc.count_mass %mean all_but(%rest) : tensor<?x?xf32> -> tensor<?xi32>`
  }];
  let arguments = (ins KVC_Scores:$score, F32:$all_but);
  let results = (outs KVC_Counts:$result);
  let assemblyFormat = [{
    $score `all_but` `(` $all_but `)` attr-dict `:` type($score) `->`
    type($result)
  }];
}

def KVC_CountRowsOp : KVC_TensorOp<"count_rows"> {
  let summary = "count the rows in the past of each KV head";
  let description = [{
    `T - w'` of a prompt; of a cache of rows as many as the head has there. Less the
    budget it is how many are too many. With `all` the window's are counted too: `T`
    of a prompt.

    Examples:
    ```mlir
    %past = kvc.count_rows : tensor<?xi32>
    %n = kvc.count_rows all : tensor<?xi32>
    ```
  }];
  let arguments = (ins UnitAttr:$all);
  let results = (outs KVC_Counts:$result);
  let assemblyFormat = "(`all` $all^)? attr-dict `:` type($result)";
}

def KVC_ScaleCountOp : KVC_TensorOp<"scale_count",
    [AllTypesMatch<["count", "result"]>], ["verifyBound"]> {
  let summary = "multiply or divide a count by an exact fraction, rounded down";
  let description = [{
    `floor(count * share)`, or `floor(count / share)` with `over`, computed in
    integers.

    Constraints:
    - C1: `over` needs a fraction above 0 (checked by `kvc-check-policy`).

    Examples:
    ```mlir
    %half = kvc.scale_count %n by(%alpha) : tensor<?xi32>
    %pool = kvc.scale_count %b over(%beta) : index
    ```
  }];
  let arguments = (ins AnyTypeOf<[KVC_Counts, Index]>:$count,
                       KVC_Fraction:$share, UnitAttr:$over);
  let results = (outs AnyTypeOf<[KVC_Counts, Index]>:$result);
  let assemblyFormat = [{
    $count (`over` $over^) : (`by`)? `(` $share `)` attr-dict `:` type($result)
  }];
  let extraClassDeclaration = [{
    /// Numerator and denominator of what the count is multiplied by.
    std::pair<int64_t, int64_t> getFactor();
  }];
}

def KVC_SelectHeadsOp : KVC_TensorOp<"select_heads"> {
  let summary = "mark the KV heads with the lowest or highest value";
  let description = [{
    True for `min(count, Hkv)` heads; ties to the smaller head. A NaN is never
    marked, unless `count` is at least `Hkv`: then all heads are.

    Constraints:
    - C1: the value is per KV head (checked by `kvc-infer-axes`).

    The mark of a head can be had for each of its past tokens (rank 2).

    Example: `%m = kvc.select_heads lowest %sigma count(%delta) : tensor<?xf32> -> tensor<?x?xi1>`
  }];
  let arguments = (ins KVC_EndAttr:$end, TensorRankOf<[F32], [1]>:$value,
                       Index:$count);
  let results = (outs TensorRankOf<[I1], [1, 2]>:$result);
  let assemblyFormat = [{
    $end $value `count` `(` $count `)` attr-dict `:` type($value) `->`
    type($result)
  }];
}

def KVC_TopkOp : KVC_TensorOp<"topk", [],
    ["verifyFused", "getPreparedMutable", "prepare"]> {
  let summary = "mark the largest scores of each KV head";
  let description = [{
    `M[g, t]` is true for exactly `min(count[g], T - w')` tokens: those with the
    largest score. Exact; of equal scores the smaller token wins; -0 equals +0;
    NaN ranks below -inf. A mask can be combined with others (`arith.ori`) or
    force tokens in a later selection (`arith.select` of +inf).

    At level `fused` what `kvc.list_candidates` makes in another kernel, the first
    digits that it reads, and what `kvc.key_prefix` makes of the scores are operands.

    Constraints:
    - C1: scores and counts are per KV head (checked by `kvc-infer-axes`; scores
      of one head serve every KV head).

    Example: `%m = kvc.topk %score, %n : tensor<?x?xf32>, tensor<?xi32> -> tensor<?x?xi1>`
  }];
  let arguments = (ins KVC_Scores:$score, KVC_Counts:$count,
                       Variadic<AnyRankedTensor>:$candidates);
  let results = (outs KVC_Mask:$result);
  let assemblyFormat = [{
    $score `,` $count
    (`candidates` `(` $candidates^ `:` type($candidates) `)`)? attr-dict `:`
    type($score) `,` type($count) `->` type($result)
  }];
}

def KVC_NearestOp : KVC_TensorOp<"nearest", [AttrSizedOperandSegments],
    ["verifyFused", "getPreparedMutable", "prepare"]> {
  let summary = "find the most similar centre of each source token";
  let description = [{
    `D[g, i] = argmax over marked centres j of R[i, j]` for each marked source
    `i`, `R` the cosine of one side's vectors (`key` after RoPE, `raw_key` before,
    `value`), or with `times` the product of two
    sides' cosines; -1 where both are negative. Ties go to the smaller token. `D`
    is -1 where the largest `R` is below `at_least`, and for tokens that are no
    source. A zero vector has cosine 0 with all but NaN, which are near to
    nothing. Norms are fp32 sums of squares, so a vector whose elements are all
    below about 1e-20 counts as a zero vector.

    At level `fused` the lists of the marked tokens (of sources, then of centres:
    tokens and counts) and the norms of each side's vectors are operands, made by
    other kernels.

    Constraints:
    - C1: sources and centres are not per query head (checked by
      `kvc-infer-axes`).

    Example: `%d = kvc.nearest %sources in %centres of raw_key times value at_least(%tau) : tensor<?x?xi1>, tensor<?x?xi1> -> tensor<?x?xi32>`
  }];
  let arguments = (ins KVC_Mask:$sources, KVC_Mask:$centres,
                       KVC_CacheSideAttr:$side,
                       OptionalAttr<KVC_CacheSideAttr>:$times, F32:$at_least,
                       Optional<KVC_TokenLists>:$source_list,
                       Optional<KVC_Counts>:$source_count,
                       Optional<KVC_TokenLists>:$centre_list,
                       Optional<KVC_Counts>:$centre_count,
                       Variadic<KVC_Scores>:$norms);
  let results = (outs TensorRankOf<[I32], [2]>:$result);
  let assemblyFormat = [{
    $sources `in` $centres `of` $side (`times` $times^)?
    `at_least` `(` $at_least `)`
    (`lists` `(` $source_list^ `,` $source_count `,` $centre_list `,`
    $centre_count `:` type($source_list) `,` type($source_count) `,`
    type($centre_list) `,` type($centre_count) `)`)?
    (`norms` `(` $norms^ `:` type($norms) `)`)? attr-dict `:`
    type($sources) `,` type($centres) `->` type($result)
  }];
}

def KVC_KeepOp : KVC_Op<"keep", [AttrSizedOperandSegments, Terminator,
                                 HasParent<"PolicyOp">]> {
  let summary = "keep the marked tokens and the last ones, drop or merge the rest";
  let description = [{
    Ends a policy. The kept set of KV head `g` is `{t : M[g, t]}` and the last
    `min(w, B)` tokens, `w = protect_last` (0 when absent); the last `B` alone where
    `B <= w`, whatever the mask marks. Kept indices are in
    ascending order; keys keep the rotation of their original position.

    With `merge`, a token `i` of the past whose destination `D[g, i]` is a kept token of
    the past is represented by that token's row. A row then holds the mean of its tokens' keys
    before RoPE, each divided by its norm, and the mean of their values, both
    weighted (equally where all weights are 0); a row of one token holds just it.
    The policy's result has a table of all tokens that some row represents: row,
    position, norm of the own key. The position is the token's own, or with
    `share_positions` that of its row.

    In a merged cache a row is merged as it is: the mean is of the rows' keys before RoPE,
    which are not unit vectors, and of their values, weighted once for each row; its
    members go with it, to the row that it joins or out. With `at_most` a head has at
    most so many members: of more, the one of the smallest position that is not its
    row's only one goes, until they fit, also where all rows are kept. What it left
    with its row stays.

    With `carry`, every kept row takes numbers along, which the next run reads as
    `kvc.row_state`: those of the window's rows too, and also where nothing is ranked
    and all rows are kept. Numbers of merged rows are added, in ascending order of
    position. A caller that does not ask for them pays nothing for them.

    Constraints:
    - C1: mask, destination, weight and what is carried are not per query head
      (checked by `kvc-infer-axes`).
    - C2: each name has letters, digits and `_`, does not begin with a digit and
      occurs once.
    - C3: what is carried is computed for each row from its own key and value, its
      attention and what it carries, in one walk over the rows: it looks along no
      tokens (checked by `kvc-form-kernels`).
    - C4: the destination is what `kvc.nearest` has found (checked by
      `kvc-check-policy`).

    Examples:
    ```mlir
    kvc.keep %mask protect_last(%window) : tensor<?x?xi1>
    kvc.keep %centres merge(%dest, %a : tensor<?x?xi32>, tensor<?x?xf32>) protect_last(%w) : tensor<?x?xi1>
    kvc.keep %rows merge(%dest, %a : tensor<?x?xi32>, tensor<?x?xf32>) at_most(%n) : tensor<?x?xi1>
    kvc.keep %heavy protect_last(%w) carry("mass" = %sum : tensor<?x?xf32>) : tensor<?x?xi1>
    ```
  }];
  let arguments = (ins KVC_Mask:$mask,
                       Optional<TensorRankOf<[I32], [2]>>:$destination,
                       Optional<KVC_Scores>:$weight,
                       UnitAttr:$share_positions, Optional<Index>:$at_most,
                       Optional<Index>:$protect_last,
                       OptionalAttr<StrArrayAttr>:$names,
                       Variadic<KVC_Scores>:$carried);
  let assemblyFormat = [{
    $mask (`merge` `(` $destination^ `,` $weight `:` type($destination) `,`
    type($weight) `)` (`share_positions` $share_positions^)?
    (`at_most` `(` $at_most^ `)`)?)?
    (`protect_last` `(` $protect_last^ `)`)?
    custom<Carried>($names, $carried, type($carried)) attr-dict `:` type($mask)
  }];
  let hasVerifier = 1;
}

#endif // KVC_SELECTIONOPS_TD
