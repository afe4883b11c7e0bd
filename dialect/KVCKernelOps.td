//===- KVCKernelOps.td - ops of level fused -------------------------------===//

#ifndef KVC_KERNEL_OPS_TD
#define KVC_KERNEL_OPS_TD

include "dialect/KVCOps.td"

// An op of level fused, on tensors whose axes it knows.
class KVC_FusedOp<string mnemonic, list<Trait> traits = [],
                  list<string> own = []>
    : KVC_Op<mnemonic, !listconcat([KVC_OfLevelFused,
        DeclareOpInterfaceMethods<KVC_AxesOpInterface>], traits), own>;

def KVC_KernelOp : KVC_FrameOp<"kernel", [IsolatedFromAbove, SingleBlock,
                                          AttrSizedOperandSegments,
                                          KVC_OfLevelFused,
                                          HasParent<"PolicyOp">]> {
  let summary = "one launch";
  let description = [{
    Made by `kvc-form-kernels`, lowered by `convert-kvc-to-gpu`. Operands are
    scratch buffers that earlier kernels filled, results are buffers that this
    one fills. `gram` and `lse` are what kernels in front of all others made for
    the ops that need it: the matrix and the sums of a gram kernel, and the
    log-sum-exp, which the engine may have as well. The body has an argument for
    each operand, in order. It holds the very ops of the policy; inside, only
    operands and results are in memory.

    | kind | parallel over | holds |
    |---|---|---|
    | `statistics`, `combine` | query rows | the log-sum-exp; skipped when the caller has it |
    | `gram` | elements of a matrix | the quadratic form that bounds norms |
    | `keys` | members | the key of each member of a merged cache |
    | `parts` | splits of the tokens | a reduction of vectors over tokens, for a rows kernel to combine |
    | `columns` | past tokens | attention, norms, and what is pointwise in tokens |
    | `segments` | segments of the past | tokens against their segment or the next |
    | `rows` | KV heads | statistics over tokens, tables of members |
    | `spans` | spans of the past of a KV head | pooling, selection, lists |
    | `sequence` | sequences | what looks at all heads' rows at once: allocation |
    | `nearest` | past tokens | the most similar centre of each source |
    | `norms` | listed tokens of a query head | norms behind the output projection, of these only |
    | `compact` | kept rows | the gather of K and V, or their means |

    `kvc.policy`, `kvc.kernel` and `protect_last` agree on what the past is:
    `protect_last` is the policy's, as a constant or as an op in the body. A kernel
    `every_row` makes what rows carry (`carry` of `kvc.keep`): where the caller asks for
    that, it computes the window's rows too, and is run where nothing is ranked. A
    kernel `of_members` is parallel over the members of a merged cache in the place of
    tokens, all of them; `keys` is what a kernel in front has made of their keys.

    Constraints:
    - C1: the body's arguments have the operands' types.
    - C2: the body ends in `kvc.yield` of the results' types.
    - C3: the name has letters, digits and `_` and does not begin with a digit.
    - C4: one launch of the kind can run the body (checked by
      `kvc-check-kernels`).
    - C5: `gram` has two operands.
    - C6: `every_row` goes with `statistics`, `combine` and `columns`, and so does
      `of_members`, which goes with `keys`.

    Example:
    ```mlir
    %1 = kvc.kernel columns "columns0"() lse(%0)
        : (tensor<?x32xf32, #kvc.axes<query_heads, query>>)
        -> tensor<?x?xf32, #kvc.axes<query_heads, past>> {
    ^bb0(%lse: tensor<?x32xf32, #kvc.axes<query_heads, query>>):
      %n = arith.constant 32 : index
      %a = kvc.attention last(%n) lse(%lse : tensor<?x32xf32, #kvc.axes<query_heads, query>>)
          : tensor<?x32x?xf32, #kvc.axes<query_heads, query, past>>
      %s = kvc.reduce sum queries %a : tensor<?x32x?xf32, #kvc.axes<query_heads, query, past>>
          -> tensor<?x?xf32, #kvc.axes<query_heads, past>>
      kvc.yield protect_last(%n) %s : tensor<?x?xf32, #kvc.axes<query_heads, past>>
    }
    ```
  }];
  let arguments = (ins KVC_KernelKindAttr:$kind, UnitAttr:$every_row,
                       UnitAttr:$of_members,
                       StrAttr:$name, Variadic<AnyRankedTensor>:$ins,
                       Variadic<AnyRankedTensor>:$gram,
                       Optional<AnyRankedTensor>:$lse,
                       Optional<AnyRankedTensor>:$keys,
                       OptionalAttr<TypedArrayAttrBase<KVC_BufferAttr,
                           "scratch buffers">>:$buffers);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $kind (`every_row` $every_row^)? (`of_members` $of_members^)? $name `(` $ins `)`
    (`gram` `(` $gram^ `)`)? (`lse` `(` $lse^ `)`)? (`keys` `(` $keys^ `)`)?
    attr-dict-with-keyword `:` functional-type(operands, results) $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The body's arguments of `gram`, and of `lse`; null without one.
    ::mlir::Block::BlockArgListType getGramArgs();
    ::mlir::BlockArgument getLseArg();
    /// The operand behind one of the body's arguments.
    ::mlir::Value getOperandOf(::mlir::BlockArgument arg);
    /// The result that holds a value of the body; null if it is not yielded.
    ::mlir::Value getResultOf(::mlir::Value yielded);
    /// True where it lists the candidates of each head's selection and does nothing else:
    /// of a short past those who select look at the scores themselves, and it is left out.
    bool listsForHeads();
  }];
}

def KVC_YieldOp : KVC_FrameOp<"yield", [AttrSizedOperandSegments, Terminator,
    HasParent<"KernelOp">]> {
  let summary = "end a kernel";
  let description = [{
    `protect_last` repeats what the policy protects, so that every kernel
    knows the past.

    Example: `kvc.yield protect_last(%w) %s : tensor<?x?xf32, #kvc.axes<kv_heads, past>>`
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values,
                       Optional<Index>:$protect_last);
  let assemblyFormat = [{
    (`protect_last` `(` $protect_last^ `)`)? ($values^ `:` type($values))?
    attr-dict
  }];
}

def KVC_RowStatisticsOp : KVC_FusedOp<"row_statistics", [Pure],
                                      ["verifyBound", "verifyFused"]> {
  let summary = "compute partial softmax statistics of the last queries";
  let description = [{
    For each query row and each split of the tokens: the maximum logit and the
    sum of exponentials relative to it, base 2. Over all T tokens, causal.

    Example: `%p = kvc.row_statistics last(%n) : tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>`
  }];
  let arguments = (ins Index:$last);
  let results = (outs TensorRankOf<[F32], [4]>:$result);
  let assemblyFormat = "`last` `(` $last `)` attr-dict `:` type($result)";
}

def KVC_RowLogSumExpOp : KVC_FusedOp<"row_log_sum_exp", [Pure], ["verifyFused"]> {
  let summary = "compute the log-sum-exp of every query, or of the last ones, base 2";
  let description = [{
    One warp walks all tokens that its queries see: for all queries there are
    rows enough, so tokens need not be split. With `last`, of so many queries, at most
    those that the caller gives.

    Example: `%lse = kvc.row_log_sum_exp : tensor<?x?xf32, #kvc.axes<query_heads, query>>`
  }];
  let arguments = (ins Optional<Index>:$last);
  let results = (outs KVC_Scores:$result);
  let assemblyFormat = "(`last` `(` $last^ `)`)? attr-dict `:` type($result)";
}

def KVC_CombineStatisticsOp : KVC_FusedOp<"combine_statistics", [Pure],
                                              ["verifyFused"]> {
  let summary = "combine partial statistics into the log-sum-exp, base 2";
  let description = [{
    In ascending order of the splits, lane by lane.

    Example: `%lse = kvc.combine_statistics %p : tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>> -> tensor<?x32xf32, #kvc.axes<query_heads, query>>`
  }];
  let arguments = (ins TensorRankOf<[F32], [4]>:$partial);
  let results = (outs KVC_Scores:$result);
  let assemblyFormat = "$partial attr-dict `:` type($partial) `->` type($result)";
}

def KVC_ReducePartOp : KVC_FusedOp<"reduce_part", [Pure], ["verifyFused"]> {
  let summary = "reduce over the tokens of each split";
  let description = [{
    The part of `kvc.reduce tokens` that one block can do; `kvc.combine_parts`
    has the rest. A mean is a sum until then; what does not fold has no parts.
    Numbers of heads are reduced in the `columns` kernel that makes them, 128
    tokens at a time, else span by span in a `spans` kernel. Vectors have a
    `parts` kernel, which `kvc-form-kernels` makes where nothing of the same
    kernel is reduced.

    Example: `%p = kvc.reduce_part mean %v : tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>> -> tensor<?x?x?xf32, #kvc.axes<kv_heads, split, channel>>`
  }];
  let arguments = (ins KVC_ReduceKindAttr:$kind,
                       TensorRankOf<[F32], [2, 3]>:$value);
  let results = (outs TensorRankOf<[F32], [2, 3]>:$result);
  let assemblyFormat = [{
    $kind $value attr-dict `:` type($value) `->` type($result)
  }];
}

def KVC_CombinePartsOp : KVC_FusedOp<"combine_parts", [Pure], ["verifyFused"]> {
  let summary = "combine what kvc.reduce_part made of the splits";
  let description = [{
    In a fixed order of the splits, whatever the GPU.

    Example: `%m = kvc.combine_parts mean %p : tensor<?x?x?xf32, #kvc.axes<kv_heads, split, channel>> -> tensor<?x?xf32, #kvc.axes<kv_heads, channel>>`
  }];
  let arguments = (ins KVC_ReduceKindAttr:$kind,
                       TensorRankOf<[F32], [2, 3]>:$parts);
  let results = (outs TensorRankOf<[F32], [1, 2]>:$result);
  let assemblyFormat = [{
    $kind $parts attr-dict `:` type($parts) `->` type($result)
  }];
}

def KVC_ExpSumPartOp : KVC_FusedOp<"exp_sum_part", [Pure]> {
  let summary = "the maximum of each split, and a sum of exponentials below it";
  let description = [{
    Where a policy reduces `exp(x - max of x)` to its sum over tokens, both are
    made in one walk: of each split the maximum m of x, and the sum of
    exp(x - m). `kvc.combine_exp_sums` has the rest. Kernels are those of
    `kvc.reduce_part`.

    Example: `%m, %l = kvc.exp_sum_part %x : tensor<?x?xf32, #kvc.axes<kv_heads, past>> -> tensor<?x?xf32, #kvc.axes<kv_heads, split>>, tensor<?x?xf32, #kvc.axes<kv_heads, split>>`
  }];
  let arguments = (ins TensorRankOf<[F32], [2]>:$value);
  let results = (outs TensorRankOf<[F32], [2]>:$most,
                      TensorRankOf<[F32], [2]>:$sum);
  let assemblyFormat = [{
    $value attr-dict `:` type($value) `->` type($most) `,` type($sum)
  }];
}

def KVC_CombineExpSumsOp : KVC_FusedOp<"combine_exp_sums", [Pure],
                                              ["verifyFused"]> {
  let summary = "combine what kvc.exp_sum_part made of the splits";
  let description = [{
    The maximum M over the splits, and the sum of their sums times exp(m - M),
    in a fixed order of the splits, whatever the GPU.

    Example: `%M, %L = kvc.combine_exp_sums %m, %l : tensor<?x?xf32, #kvc.axes<kv_heads, split>>, tensor<?x?xf32, #kvc.axes<kv_heads, split>> -> tensor<?xf32, #kvc.axes<kv_heads>>, tensor<?xf32, #kvc.axes<kv_heads>>`
  }];
  let arguments = (ins TensorRankOf<[F32], [2]>:$mosts,
                       TensorRankOf<[F32], [2]>:$sums);
  let results = (outs TensorRankOf<[F32], [1]>:$most,
                      TensorRankOf<[F32], [1]>:$sum);
  let assemblyFormat = [{
    $mosts `,` $sums attr-dict `:` type($mosts) `,` type($sums) `->`
    type($most) `,` type($sum)
  }];
}

def KVC_DeviationPartOp : KVC_FusedOp<"deviation_part", [Pure]> {
  let summary = "what a standard deviation needs of each half of a split";
  let description = [{
    Of `kvc.reduce std tokens` what the block has that makes the numbers: of every
    64 tokens, two parts of a split, how many there are, their mean, and the sum of
    the squares of how far they are from it. `kvc.combine_deviations` has the rest.
    Only a `columns` kernel computes it, also one that walks all heads. In a cache of
    rows the 64 tokens of such a walk are 64 positions.

    Example: `%n, %m, %q = kvc.deviation_part %x : tensor<?x?xf32, #kvc.axes<kv_heads, past>> -> tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>, tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>, tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>`
  }];
  let arguments = (ins TensorRankOf<[F32], [2]>:$value);
  let results = (outs TensorRankOf<[F32], [3]>:$count,
                      TensorRankOf<[F32], [3]>:$mean,
                      TensorRankOf<[F32], [3]>:$squares);
  let assemblyFormat = [{
    $value attr-dict `:` type($value) `->` type($count) `,` type($mean) `,`
    type($squares)
  }];
}

def KVC_CombineDeviationsOp : KVC_FusedOp<"combine_deviations", [Pure],
                                                ["verifyFused"]> {
  let summary = "combine what kvc.deviation_part made of the splits";
  let description = [{
    The root of the mean of all squares, by the parts' counts, means and squares, in a
    fixed order of the splits, whatever the GPU. A block that is asked which heads have
    the lowest one (`kvc.select_heads`) makes it of every head.

    Example: `%d = kvc.combine_deviations %n, %m, %q : tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>, tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>>, tensor<?x?x2xf32, #kvc.axes<kv_heads, split, pair>> -> tensor<?xf32, #kvc.axes<kv_heads>>`
  }];
  let arguments = (ins TensorRankOf<[F32], [3]>:$counts,
                       TensorRankOf<[F32], [3]>:$means,
                       TensorRankOf<[F32], [3]>:$squares);
  let results = (outs TensorRankOf<[F32], [1]>:$result);
  let assemblyFormat = [{
    $counts `,` $means `,` $squares attr-dict `:` type($counts) `,`
    type($means) `,` type($squares) `->` type($result)
  }];
}

def KVC_StoreOp : KVC_FusedOp<"store", [Pure, KVC_ScratchOpInterface,
                                       AllTypesMatch<["value", "result"]>]> {
  let summary = "write a value to scratch before the kernel goes on";
  let description = [{
    Inserted by `kvc-form-kernels` where an op of a `rows` or `segments` kernel
    reads a value at more than one token (`Needs::rows`): `kvc.count_mass` and
    `kvc.segment`. In a `spans` kernel it is there for callers, who may read what
    a `kvc.topk` ranked.

    Example: `%r = kvc.store %s : tensor<?x?xf32, #kvc.axes<kv_heads, past>>`
  }];
  let arguments = (ins AnyRankedTensor:$value,
                       OptionalAttr<KVC_BufferAttr>:$buffer);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    /// What is ranked last is such a value.
    bool outlivesPolicy() { return true; }
  }];
}

def KVC_CountDigitsOp : KVC_FusedOp<"count_digits", [Pure]> {
  let summary = "count the first digits of each KV head's scores";
  let description = [{
    The first step of an exact selection. A score's key is 32 bits whose unsigned
    order is that of the scores, NaN lowest; its first digit is one of 2048 bins in this
    order, 16 for each octave of sizes that are common
    (`codegen/kernels/FirstDigit.h`). Blocks add their counts to the result, which a kernel in front has set to
    0 (`Needs::accumulates`); counts are integers, so their order changes nothing.

    Example: `%d = kvc.count_digits %s : tensor<?x?xf32, #kvc.axes<kv_heads, past>> -> tensor<?x2048xi32, #kvc.axes<kv_heads, bin>>`
  }];
  let arguments = (ins KVC_Scores:$score);
  let results = (outs KVC_TokenLists:$digits);
  let assemblyFormat = "$score attr-dict `:` type($score) `->` type($digits)";
}

def KVC_KeyPrefixOp : KVC_FusedOp<"key_prefix", [Pure]> {
  let summary = "what a selection compares of each score, in 16 bits";
  let description = [{
    The upper 15 bits of a score's key (`kvc.count_digits`), which have its first digit in
    them, below a bit that is 1: with it, two of them in a word of 32 bits are compared by one
    subtraction. A head has a multiple of 256 of them in memory.

    Example: `%x = kvc.key_prefix %s : tensor<?x?xf32, #kvc.axes<kv_heads, past>> -> tensor<?x?xi16, #kvc.axes<kv_heads, past>>`
  }];
  let arguments = (ins KVC_Scores:$score);
  let results = (outs KVC_KeyPrefixes:$prefix);
  let assemblyFormat = "$score attr-dict `:` type($score) `->` type($prefix)";
}

def KVC_ListCandidatesOp : KVC_FusedOp<"list_candidates", [Pure],
                                       ["verifyFused"]> {
  let summary = "list the tokens among which a selection's threshold lies";
  let description = [{
    Of each KV head, the tokens whose first digit is that of the head's
    `count`-th largest score; with `all_heads`, that of the `sum(count)`-th largest
    score of all heads together. The results:

    - how many they are;
    - counts of their keys' second digits, the 11 bits behind the first digit; with
      `all_heads` those of all are the first head's;
    - of each of the head's spans, how many tokens have a larger first digit;
    - the digit, and the how manyth of the candidates that is looked for; with
      `all_heads` the first head's;
    - the tokens, and their keys.

    Nothing where the count selects nothing or everything. Blocks append what they
    find, so the order is that of their arrival; whoever reads the lists depends on
    what is in them only.

    Example: `%n, %d2, %a, %p, %t, %k = kvc.list_candidates %s, %c digits(%d) : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?xi32, #kvc.axes<kv_heads>>, tensor<?x2048xi32, #kvc.axes<kv_heads, bin>> -> tensor<?xi32, #kvc.axes<kv_heads>>, tensor<?x2048xi32, #kvc.axes<kv_heads, bin>>, tensor<?x?xi32, #kvc.axes<kv_heads, split>>, tensor<?x2xi32, #kvc.axes<kv_heads, pair>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>`
  }];
  let arguments = (ins KVC_Scores:$score, KVC_Counts:$count,
                       KVC_TokenLists:$digits, UnitAttr:$all_heads);
  let results = (outs KVC_Counts:$found, KVC_TokenLists:$second,
                      KVC_TokenLists:$above, KVC_TokenLists:$place,
                      KVC_TokenLists:$tokens, KVC_TokenLists:$keys);
  let assemblyFormat = [{
    (`all_heads` $all_heads^)? $score `,` $count `digits` `(` $digits `)`
    attr-dict `:` type($score) `,` type($count) `,` type($digits) `->`
    type($found) `,` type($second) `,` type($above) `,` type($place) `,`
    type($tokens) `,` type($keys)
  }];
}

def KVC_ListKeptOp : KVC_FusedOp<"list_kept", [Pure]> {
  let summary = "list the kept tokens of each KV head, ascending";
  let description = [{
    The selected tokens of the past, then the protected ones. The lists are the
    policy's result, not scratch.

    Example: `%i, %n = kvc.list_kept %m : tensor<?x?xi1, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>`
  }];
  let arguments = (ins KVC_Mask:$mask);
  let results = (outs TensorRankOf<[I32], [2]>:$indices, KVC_Counts:$counts);
  let assemblyFormat = [{
    $mask attr-dict `:` type($mask) `->` type($indices) `,` type($counts)
  }];
}

def KVC_GramOp : KVC_FusedOp<"gram", [Pure]> {
  let summary = "compute a quadratic form that bounds norms behind the projection";
  let description = [{
    Per query head a `d x d` matrix, stored in the model's type, and sums that its
    use needs. Depends on the weights only.

    Example: `%g, %s = kvc.gram : tensor<?x?x?xf32, #kvc.axes<query_heads, channel, channel>>, tensor<?x?x2xf32, #kvc.axes<query_heads, channel, pair>>`
  }];
  let results = (outs TensorRankOf<[F32], [3]>:$matrix,
                      TensorRankOf<[F32], [3]>:$sums);
  let assemblyFormat = "attr-dict `:` type($matrix) `,` type($sums)";
}

def KVC_MemberKeysOp : KVC_FusedOp<"member_keys", [Pure]> {
  let summary = "compute the keys of the members of a merged cache";
  let description = [{
    `norm * RoPE(k[row], position)`, stored in the model's type. All positions of a
    head's members, and so their keys, are in ascending order.

    Example: `%k = kvc.member_keys : tensor<?x?x?xf32, #kvc.axes<kv_heads, member, channel>>`
  }];
  let results = (outs TensorRankOf<[F32], [3]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def KVC_ListOp : KVC_FusedOp<"list", [Pure]> {
  let summary = "list the marked tokens of each KV head, ascending";
  let description = [{
    For a kernel behind this one.

    Example: `%i, %n = kvc.list %m : tensor<?x?xi1, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>`
  }];
  let arguments = (ins KVC_Mask:$mask);
  let results = (outs TensorRankOf<[I32], [2]>:$indices, KVC_Counts:$counts);
  let assemblyFormat = [{
    $mask attr-dict `:` type($mask) `->` type($indices) `,` type($counts)
  }];
}

def KVC_ListMembersOp : KVC_FusedOp<"list_members", [KVC_ScratchOpInterface]> {
  let summary = "list all tokens that some row represents, ascending";
  let description = [{
    Writes the caller's table of members, but for the norms; not pure. The result
    has the token of each entry of the table. Comes behind `kvc.list_kept`. In a merged
    cache, where a table was there before, it lists what is left of that, at most
    `at_most` entries, and writes the norms, too; the result has, for each row, the kept
    row that represents it, or -1.

    Example: `%t = kvc.list_members %m, %d : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi32, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>`
  }];
  let arguments = (ins KVC_Mask:$mask, TensorRankOf<[I32], [2]>:$destination,
                       UnitAttr:$share_positions, Optional<Index>:$at_most,
                       OptionalAttr<KVC_BufferAttr>:$buffer);
  let results = (outs TensorRankOf<[I32], [2]>:$tokens);
  let assemblyFormat = [{
    $mask `,` $destination (`share_positions` $share_positions^)?
    (`at_most` `(` $at_most^ `)`)?
    attr-dict `:` type($mask) `,` type($destination) `->` type($tokens)
  }];
  let extraClassDeclaration = [{
    bool outlivesPolicy() { return false; }
  }];
}

def KVC_MergeOp : KVC_Op<"merge", [KVC_OfLevelFused], ["verifyFused"]> {
  let summary = "write the means of each row's members into the ragged cache";
  let description = [{
    In place of `kvc.compact`. Not pure: it also writes the norms of the table.
    Members are added in ascending order, and so is what they carry.

    Example: `kvc.merge %t weight(%w) : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>`
  }];
  let arguments = (ins TensorRankOf<[I32], [2]>:$tokens, KVC_Scores:$weight,
                       OptionalAttr<StrArrayAttr>:$names,
                       Variadic<KVC_Scores>:$carried);
  let assemblyFormat = [{
    $tokens `weight` `(` $weight `)`
    custom<Carried>($names, $carried, type($carried)) attr-dict `:`
    type($tokens) `,` type($weight)
  }];
}

def KVC_CompactOp : KVC_Op<"compact", [KVC_OfLevelFused], ["verifyFused"]> {
  let summary = "gather the kept rows of K and V into the ragged cache";
  let description = [{
    Not pure: it writes the caller's cache. Head after head, `slack` free rows
    behind each. What rows carry goes with them, where the caller asks for it.

    Example: `kvc.compact %i, %n : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>`
  }];
  let arguments = (ins TensorRankOf<[I32], [2]>:$indices, KVC_Counts:$counts,
                       OptionalAttr<StrArrayAttr>:$names,
                       Variadic<KVC_Scores>:$carried);
  let assemblyFormat = [{
    $indices `,` $counts custom<Carried>($names, $carried, type($carried))
    attr-dict `:` type($indices) `,` type($counts)
  }];
}

def KVC_DoneOp : KVC_FrameOp<"done", [Terminator, HasParent<"PolicyOp">]> {
  let summary = "end a fused policy";
  let description = [{ Example: `kvc.done` }];
  let assemblyFormat = "attr-dict";
}

#endif // KVC_KERNEL_OPS_TD
