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
                                          KVC_OfLevelFused,
                                          HasParent<"PolicyOp">]> {
  let summary = "one launch";
  let description = [{
    Made by `kvc-form-kernels`, lowered by `convert-kvc-to-gpu`. Operands are
    scratch buffers that earlier kernels filled, results are buffers that this
    one fills. The body holds the very ops of the policy; inside, only operands
    and results are in memory.

    | kind | parallel over | holds |
    |---|---|---|
    | `statistics`, `combine` | query rows | the log-sum-exp; skipped when the caller has it |
    | `gram` | elements of a matrix | the quadratic form that bounds norms |
    | `columns` | past tokens | attention, norms, and what is pointwise in tokens |
    | `segments` | segments of the past | tokens against their segment or the next |
    | `rows` | KV heads | pooling, statistics over tokens, selection |
    | `sequence` | sequences | what looks at all heads' rows at once: allocation |
    | `nearest` | past tokens | the most similar centre of each source |
    | `compact` | kept rows | the gather of K and V, or their means |

    `kvc.policy`, `kvc.kernel` and `protect_last` agree on what the past is:
    `protect_last` is the policy's, as a constant or as an op in the body.

    Constraints:
    - C1: the body's arguments have the operands' types.
    - C2: the body ends in `kvc.yield` of the results' types.
    - C3: the name has letters, digits and `_` and does not begin with a digit.
    - C4: one launch of the kind can run the body (checked by
      `kvc-check-kernels`).
  }];
  let arguments = (ins KVC_KernelKindAttr:$kind, StrAttr:$name,
                       Variadic<AnyRankedTensor>:$inputs,
                       OptionalAttr<TypedArrayAttrBase<KVC_BufferAttr,
                           "scratch buffers">>:$buffers);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $kind $name `(` $inputs `)` attr-dict-with-keyword `:`
    functional-type($inputs, $outputs) $body
  }];
  let hasRegionVerifier = 1;
}

def KVC_YieldOp : KVC_FrameOp<"yield", [AttrSizedOperandSegments, Terminator,
    HasParent<"KernelOp">]> {
  let summary = "end a kernel";
  let description = [{
    `protect_last` repeats what the policy protects, so that every kernel
    knows the past.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values,
                       Optional<Index>:$protect_last);
  let assemblyFormat = [{
    (`protect_last` `(` $protect_last^ `)`)? ($values^ `:` type($values))?
    attr-dict
  }];
}

def KVC_RowStatisticsOp : KVC_FusedOp<"row_statistics", [Pure]> {
  let summary = "compute partial softmax statistics of the last queries";
  let description = [{
    For each query row and each split of the tokens: the maximum logit and the
    sum of exponentials relative to it, base 2. Over all T tokens, causal.
  }];
  let arguments = (ins Index:$last);
  let results = (outs TensorRankOf<[F32], [4]>:$result);
  let assemblyFormat = "`last` `(` $last `)` attr-dict `:` type($result)";
}

def KVC_RowLogSumExpOp : KVC_FusedOp<"row_log_sum_exp", [Pure]> {
  let summary = "compute the log-sum-exp of every query, base 2";
  let description = [{
    One warp walks all tokens that its queries see: for all queries there are
    rows enough, so tokens need not be split.
  }];
  let results = (outs KVC_Scores:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def KVC_CombineStatisticsOp : KVC_FusedOp<"combine_statistics", [Pure],
                                              ["verifyFused"]> {
  let summary = "combine partial statistics into the log-sum-exp, base 2";
  let description = [{ In ascending order of the splits, lane by lane. }];
  let arguments = (ins TensorRankOf<[F32], [4]>:$partial);
  let results = (outs KVC_Scores:$result);
  let assemblyFormat = "$partial attr-dict `:` type($partial) `->` type($result)";
}

def KVC_StageOp : KVC_FusedOp<"stage", [Pure, KVC_ScratchOpInterface,
                                       AllTypesMatch<["value", "result"]>]> {
  let summary = "write a value of a rows kernel to scratch before going on";
  let description = [{
    Inserted where an op needs a value at more than one token: in front of
    `kvc.pool` and `kvc.topk`.
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

def KVC_ListKeptOp : KVC_FusedOp<"list_kept", [Pure]> {
  let summary = "list the kept tokens of each KV head, ascending";
  let description = [{ The selected tokens of the past, then the window. }];
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
  }];
  let results = (outs TensorRankOf<[F32], [3]>:$matrix,
                      TensorRankOf<[F32], [3]>:$sums);
  let assemblyFormat = "attr-dict `:` type($matrix) `,` type($sums)";
}

def KVC_ListOp : KVC_FusedOp<"list", [Pure]> {
  let summary = "list the marked tokens of each KV head, ascending";
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
    has the token of each entry of the table. Comes behind `kvc.list_kept`.
  }];
  let arguments = (ins KVC_Mask:$mask, TensorRankOf<[I32], [2]>:$destination,
                       UnitAttr:$share_positions,
                       OptionalAttr<KVC_BufferAttr>:$buffer);
  let results = (outs TensorRankOf<[I32], [2]>:$tokens);
  let assemblyFormat = [{
    $mask `,` $destination (`share_positions` $share_positions^)?
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
    Members are added in ascending order.
  }];
  let arguments = (ins TensorRankOf<[I32], [2]>:$tokens, KVC_Scores:$weight);
  let assemblyFormat = [{
    $tokens `weight` `(` $weight `)` attr-dict `:` type($tokens) `,`
    type($weight)
  }];
}

def KVC_CompactOp : KVC_Op<"compact", [KVC_OfLevelFused], ["verifyFused"]> {
  let summary = "gather the kept rows of K and V into the ragged cache";
  let description = [{
    Not pure: it writes the caller's cache. Head after head, `slack` free rows
    behind each.
  }];
  let arguments = (ins TensorRankOf<[I32], [2]>:$indices, KVC_Counts:$counts);
  let assemblyFormat = [{
    $indices `,` $counts attr-dict `:` type($indices) `,` type($counts)
  }];
}

def KVC_DoneOp : KVC_FrameOp<"done", [Terminator, HasParent<"PolicyOp">]> {
  let summary = "end a fused policy";
  let assemblyFormat = "attr-dict";
}

#endif // KVC_KERNEL_OPS_TD
