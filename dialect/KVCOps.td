//===- KVCOps.td - ops of level policy, in flow order: up to scores --------===//

#ifndef KVC_OPS_TD
#define KVC_OPS_TD

include "dialect/KVCDialect.td"
include "dialect/KVCTypes.td"
include "dialect/KVCAttrs.td"
include "dialect/KVCInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"

// The frame: ops that compute nothing.
class KVC_FrameOp<string mnemonic, list<Trait> traits = []>
    : Op<KVC_Dialect, mnemonic, traits>;

// An op that says what it needs. `own` names the methods of the interface that it
// has beside `getNeeds`, which none goes without.
class KVC_Op<string mnemonic, list<Trait> traits = [], list<string> own = []>
    : Op<KVC_Dialect, mnemonic, !listconcat([
        DeclareOpInterfaceMethods<KVC_NeedsOpInterface, own>], traits)>;

// An op on tensors that knows its axes.
class KVC_TensorOp<string mnemonic, list<Trait> traits = [],
                   list<string> own = []>
    : KVC_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<KVC_AxesOpInterface>], traits), own>;

def KVC_Scores : TensorRankOf<[F32], [2]>;
def KVC_Rows : TensorRankOf<[F32], [3]>;
def KVC_Values : TensorRankOf<[F32], [2, 3]>;
def KVC_Mask : TensorRankOf<[I1], [2]>;
def KVC_Counts : TensorRankOf<[I32], [1]>;
def KVC_KeyPrefixes : TensorRankOf<[I16], [2]>;
def KVC_TokenLists : TensorRankOf<[I32], [2]>;

//===----------------------------------------------------------------------===//
// The policy and its symbolic scalars
//===----------------------------------------------------------------------===//

def KVC_PolicyOp : KVC_FrameOp<"policy", [IsolatedFromAbove, Symbol, SingleBlock,
                                     NoRegionArguments]> {
  let summary = "define an eviction policy";
  let description = [{
    The body runs once per layer, after the layer's attention. At level
    `policy` it ends in `kvc.keep`, at level `fused` in `kvc.done`.

    Constraints:
    - C1: the body ends in `kvc.keep` or `kvc.done`.
    - C2: the name has letters, digits and `_` and does not begin with a digit:
      it becomes a symbol of the artefact.
    - C3: each of `params` is what `kvc.param` may be: a whole number, a finite
      float or a decimal text.

    `params` are those that it was compiled with, for the manifest; `plan` is
    written by `kvc-write-plan`.

    Example:
    ```mlir
    kvc.policy @full {
      %true = arith.constant true
      %all = kvc.broadcast %true : i1 to tensor<?x?xi1>
      kvc.keep %all : tensor<?x?xi1>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       OptionalAttr<DictionaryAttr>:$params,
                       OptionalAttr<KVC_PlanAttr>:$plan);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def KVC_ParamOp : KVC_Op<"param", [Pure, HasParent<"PolicyOp">]> {
  let summary = "read a named parameter that the user may override";
  let description = [{
    `--param NAME=VALUE` of the compiler overrides the default; the pass
    `kvc-bind-params` replaces the op with a constant.

    Constraints:
    - C1: the value is an integer of type `index`, a float of type `f32`, or a
      decimal text of type `!kvc.fraction`.
    - C2: a float is finite: the manifest has it as JSON.
    - C3: a policy reads a name once (checked by `kvc-bind-params`).
    - C4: the name is not empty and has no `=`: `--param` could not say it.

    Examples:
    ```mlir
    %window = kvc.param "window" = 32 : index
    %share  = kvc.param "safeguard" = "0.2" : !kvc.fraction
    ```
  }];
  let arguments = (ins StrAttr:$name, TypedAttrInterface:$value);
  let results = (outs AnyTypeOf<[Index, F32, KVC_Fraction]>:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def KVC_FractionOp : KVC_Op<"fraction", [Pure]> {
  let summary = "an exact fraction";
  let description = [{
    Constraints:
    - C1: the text is a decimal of at most 4 places, 0 or more and below 1024.

    Example: `%f = kvc.fraction "0.2"`
  }];
  let arguments = (ins StrAttr:$text);
  let results = (outs KVC_Fraction:$result);
  let assemblyFormat = "$text attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Numerator and denominator, reduced.
    std::pair<int64_t, int64_t> getRatio();
  }];
}

def KVC_BudgetOp : KVC_Op<"budget", [Pure]> {
  let summary = "read B, the budget of one KV head in tokens";
  let description = [{
    The window is included. Known when the policy is launched, one number for
    each sequence.

    Example: `%b = kvc.budget`
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def KVC_LengthOp : KVC_Op<"length", [Pure]> {
  let summary = "read T, the tokens of the sequence";
  let description = [{ Example: `%t = kvc.length` }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def KVC_NewQueriesOp : KVC_Op<"new_queries", [Pure]> {
  let summary = "read how many of the last queries no earlier run has had";
  let description = [{
    Known when the policy is launched, one number for each sequence, 0 to T; T where
    the caller does not say, as behind a prompt of which nothing was evicted.

    Example: `%n = kvc.new_queries`
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def KVC_SinceOp : KVC_Op<"since", [Pure]> {
  let summary = "read how many tokens earlier runs have had behind the prompt";
  let description = [{
    Known when the policy is launched, one number for each sequence: the tokens that
    came behind the prompt and were new in some earlier run. 0 where the caller does
    not say. Those of this run are `kvc.new_queries`.

    Example: `%n = kvc.since`
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def KVC_LayerOp : KVC_Op<"layer", [Pure]> {
  let summary = "read the index of the layer, from 0";
  let description = [{ Example: `%l = kvc.layer` }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def KVC_LayersOp : KVC_Op<"layers", [Pure]> {
  let summary = "read L, the number of layers";
  let description = [{ Example: `%n = kvc.layers` }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// From the cache to scores
//===----------------------------------------------------------------------===//

def KVC_AttentionOp : KVC_TensorOp<"attention", [],
    ["verifyBound", "verifyFused", "getPreparedMutable"]> {
  let summary = "read attention rows of the last queries";
  let description = [{
    `A[h, i, t] = exp(scale * q[h, T - n + i] . k[h / G, t] - lse[h, i])` for
    the last `n` queries `i` and past tokens `t`; 0 where the query is older
    than the token. `n` is a constant or `kvc.length`, which reads all queries:
    the engine must then hand over the queries of the whole prompt; or
    `kvc.new_queries`, for what is added to numbers that rows carry
    (`kvc.row_state`). `lse` is the row's log-sum-exp over **all** tokens that the
    query sees, window included. fp32; with `rounded` each weight is rounded to
    the model's type. With `logits` the rows are `scale * q . k` instead, for
    every token: what queries of the future, which see all of it, could look
    like. The rows are never stored: a value that depends on them must be reduced
    over queries, and a kernel that needs them again reads K again. Queries in
    front of a sequence that is shorter than `n` have weight and logit 0. A logit of
    +infinity makes all weights of its query NaN; a weight below 2^-126 may be 0.

    With `members` the rows are those of the members that the rows of a merged cache
    represent (`kvc_member_table`): heads x queries x members, and the softmax is over
    them. The key of a member is `norm * RoPE(k[row], position)` in the model's type.
    `kvc.reduce members` makes rows of them.

    At level `fused` the log-sum-exp is the operand `lse`; the engine's attention
    usually has it, else one or two kernels make it.

    Constraints:
    - C1: `last` is a constant of 1 to 1024 after parameters are bound, or
      `kvc.length`, or `kvc.new_queries` (checked by `kvc-check-policy`). Kernels hold
      what they know of all rows of a group in shared memory, of which a launch gives 99
      KiB at most: a window of 1024 goes with groups of up to 8 query heads, and is refused
      by name where it does not fit.
    - C2: `logits` are not `rounded`.
    - C3: a policy reads all queries or the new ones, not both (checked by
      `kvc-check-policy`).
    - C4: a policy reads the attention of rows or that of members, not both (checked
      by `kvc-check-policy`).

    Examples:
    ```mlir
    %rows = kvc.attention last(%window) : tensor<?x?x?xf32>
    %tokens = kvc.length
    %all = kvc.attention last(%tokens) : tensor<?x?x?xf32>
    ```
  }];
  let arguments = (ins Index:$last, Optional<KVC_Scores>:$lse,
                       UnitAttr:$rounded, UnitAttr:$logits, UnitAttr:$members);
  let results = (outs KVC_Rows:$result);
  let assemblyFormat = [{
    `last` `(` $last `)` (`lse` `(` $lse^ `:` type($lse) `)`)?
    (`rounded` $rounded^)? (`logits` $logits^)? (`members` $members^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// True where the rows are those of all queries of the sequence.
    bool readsAll();
    /// True where they are those of the new ones.
    bool readsNew();
  }];
}

def KVC_NormOp : KVC_TensorOp<"norm"> {
  let summary = "compute the norm of each past key or value";
  let description = [{
    `N[g, t] = ||k[g, t, :]||` (`key`: after RoPE, `raw_key`: before) or
    `||v[g, t, :]||` (`value`), in fp32: `l1` the sum of sizes, `l2` the root of
    the sum of squares.

    Example: `%n = kvc.norm l2 key : tensor<?x?xf32>`
  }];
  let arguments = (ins KVC_NormKindAttr:$kind, KVC_CacheSideAttr:$side);
  let results = (outs KVC_Scores:$result);
  let assemblyFormat = "$kind $side attr-dict `:` type($result)";
}

def KVC_VectorsOp : KVC_TensorOp<"vectors"> {
  let summary = "read the vectors of past keys or values, channel by channel";
  let description = [{
    `X[g, c, t]`, heads x channels x past, in fp32: of `key` after RoPE, `raw_key`
    before, or `value`. Never stored: a value of this
    kind is computed again wherever it is reduced, over channels or over tokens.

    Example: `%k = kvc.vectors key : tensor<?x?x?xf32>`
  }];
  let arguments = (ins KVC_CacheSideAttr:$side);
  let results = (outs KVC_Rows:$result);
  let assemblyFormat = "$side attr-dict `:` type($result)";
}

def KVC_ProjectedNormOp : KVC_TensorOp<"projected_norm",
    [AttrSizedOperandSegments],
    ["verifyFused", "getPreparedMutable", "prepare"]> {
  let summary = "compute the norm of each past value behind the output projection";
  let description = [{
    `N[h, t] = ||v[h / G, t, :] . Wo_h||`, `Wo_h` the `d x D` slice of the layer's
    output projection that belongs to query head `h`: how much the token can
    move the layer's output (Feng et al. 2025). `l1` or `l2`; fp32 sums; the product itself
    is never stored. The engine must hand over the output projection.

    `where` computes the norm of marked tokens only; others have 0. Where the marks are
    not per query head, and rows do not carry what is made of it, the op has a kernel of
    its own at level `fused`, and a list of the marked tokens and its length as
    operands, made by other kernels. `bound` makes
    a number that is at least the norm, seldom more than a third above it, from a
    `d x d` matrix of the weights (at level `fused` the operand `gram`, with the
    sums that go with it): d / D of the work.
    Both are made by `kvc-prune-norms`. In a policy that has `bound` itself, tokens
    are kept by that number, which the reference takes to be the norm.

    Constraints:
    - C1: `bound` goes with `l1` and without `where`.

    Example: `%n = kvc.projected_norm l1 : tensor<?x?xf32>`
  }];
  let arguments = (ins KVC_NormKindAttr:$kind, UnitAttr:$bound,
                       Optional<KVC_Mask>:$where,
                       Variadic<AnyRankedTensor>:$gram,
                       Variadic<AnyRankedTensor>:$list);
  let results = (outs KVC_Scores:$result);
  let assemblyFormat = [{
    $kind (`bound` $bound^)? (`where` `(` $where^ `:` type($where) `)`)?
    (`gram` `(` $gram^ `:` type($gram) `)`)?
    (`list` `(` $list^ `:` type($list) `)`)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// True where it is computed of listed tokens: marks of KV heads, or of all.
    bool isListed();
  }];
}

def KVC_PositionOp : KVC_TensorOp<"position"> {
  let summary = "read the index t of each past token";
  let description = [{
    One row for all heads. With `from_end` the tokens that follow it, `T - 1 - t`.

    With `row` the number of the token's row in its head, one row for each KV head:
    `t` of a prompt; of a cache of rows how many rows of the head lie in front, and
    with `from_end` how many follow it, the window's too. What walks rows (pools,
    segments) counts them so.

    Examples:
    ```mlir
    %p = kvc.position : tensor<?x?xi32>
    %behind = kvc.position row from_end : tensor<?x?xi32>
    ```
  }];
  let arguments = (ins UnitAttr:$row, UnitAttr:$from_end);
  let results = (outs TensorRankOf<[I32], [2]>:$result);
  let assemblyFormat = [{
    (`row` $row^)? (`from_end` $from_end^)? attr-dict `:` type($result)
  }];
}

def KVC_KeptLayersOp : KVC_TensorOp<"kept_layers"> {
  let summary = "read in how many earlier layers some KV head kept each past token";
  let description = [{
    `n[t]`, one row for all heads: state that is carried from layer to layer of a
    sequence, one number per token, 0 in the first layer. Every layer of a policy
    that reads it counts what it keeps, the window included. With `share`:
    `n[t] / (l + 1)`, the part of the layers so far, this one included.

    Example: `%n = kvc.kept_layers share : tensor<?x?xf32>`
  }];
  let arguments = (ins UnitAttr:$share);
  let results = (outs KVC_Scores:$result);
  let assemblyFormat = "(`share` $share^)? attr-dict `:` type($result)";
}

def KVC_RowStateOp : KVC_TensorOp<"row_state"> {
  let summary = "read a number that each row of the past carries";
  let description = [{
    What `kvc.keep` gave the row under this name when the policy last ran; 0 for rows
    that are new since, and where the caller hands over none. One number for each
    row of a KV head, in fp32.

    Constraints:
    - C1: `kvc.keep` carries the name (checked by `kvc-check-policy`).

    Example: `%m = kvc.row_state "mass" : tensor<?x?xf32>`
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs KVC_Scores:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def KVC_FillOp : KVC_TensorOp<"fill", [], ["verifyFused"]> {
  let summary = "make a tensor of one number";
  let description = [{
    Short for an `arith.constant` and a `kvc.broadcast`, which it becomes when
    the policy is canonicalized.

    Example: `%inf = kvc.fill 0x7F800000 : tensor<?x?xf32>`
  }];
  let arguments = (ins F32Attr:$value);
  let results = (outs TensorRankOf<[F32], [1, 2, 3]>:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasCanonicalizeMethod = 1;
}

def KVC_BroadcastOp : KVC_TensorOp<"broadcast"> {
  let summary = "repeat a scalar or a per-head value";
  let description = [{
    From a scalar to any tensor, from heads to heads x past, from heads x channels
    or, with `along channels`, from heads x past to heads x channels x past.
    Between head axes the value of head `h / G` is repeated; `kvc-infer-axes`
    inserts that form where an elementwise op mixes head axes.

    Constraints:
    - C1: the element types are equal.
    - C2: the operand's rank is at most the result's; of a scalar of type
      `index` the lowest 32 bits are repeated, as `i32` or as that number in `f32`,
      which a count is exactly up to 2^24.

    Example: `%eps = kvc.broadcast %c : f32 to tensor<?x?xf32>`
  }];
  let arguments = (ins AnyType:$value, UnitAttr:$channels);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $value (`along` `channels` $channels^)? attr-dict `:` type($value) `to`
    type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// From scores to scores
//===----------------------------------------------------------------------===//

def KVC_ReduceOp : KVC_TensorOp<"reduce", [], ["prepare"]> {
  let summary = "reduce over queries, heads, tokens, channels or members";
  let description = [{
    | axis | from | to |
    |---|---|---|
    | `queries` | heads x queries x past | heads x past |
    | `group` | query heads x ... | KV heads x ... |
    | `heads` | any heads x ... | one head x ... |
    | `tokens` | heads (x channels) x past | heads (x channels) |
    | `channels` | heads x channels x past | heads x past |
    | `members` | heads x members | heads x past: the members of each row |

    `sum`, `max` and `min` are what they say, `mean` divides by the number of
    values, `std` is the population standard deviation. The order of accumulation is fixed. NaN propagates, also through
    `max` and `min`.

    Constraints:
    - C1: `queries` and `channels` need rank 3, `members` rank 2, the others rank 2
      or 3.
    - C2: the result's rank is one less for `queries`, `tokens` and `channels`,
      else equal.
    - C3: `std` goes with `tokens` and `channels` only.
    - C4: `group` needs query heads, `channels` needs channels, `queries` needs
      queries, `members` needs members per KV head, and `tokens` of rank 3 channels
      per KV head; of members nothing else is taken but `queries` and `group`
      (checked by `kvc-infer-axes`).
    - C5: rows that are reduced over all heads are reduced over queries before
      they are used with rows per head (checked by `kvc-form-kernels`).
    - C6: rows come from `kvc.attention`; those of all queries are reduced over
      queries before they are reduced over all heads (checked by
      `kvc-infer-axes`).

    Example: `%m = kvc.reduce mean queries %a : tensor<?x?x?xf32> -> tensor<?x?xf32>`
  }];
  let arguments = (ins KVC_ReduceKindAttr:$kind, KVC_ReduceAxisAttr:$axis,
                       KVC_Values:$value);
  let results = (outs TensorRankOf<[F32], [1, 2, 3]>:$result);
  let assemblyFormat = [{
    $kind $axis $value attr-dict `:` type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}

def KVC_PoolOp : KVC_TensorOp<"pool", [AllTypesMatch<["value", "result"]>],
                              ["verifyBound"]> {
  let summary = "combine each token's score with its neighbours'";
  let description = [{
    `S'[h, t] = combine over |u - t| <= width / 2 of S[h, u]`, `u` in the past.
    `max` ignores positions that do not exist; `mean` divides by the number of
    positions that exist, or by `width` with `count_padding`. Attention rows can
    be pooled one by one, before they are reduced.

    Constraints:
    - C1: `width` is an odd constant of 1 to 255 after parameters are bound
      (checked by `kvc-check-policy`).
    - C2: `count_padding` goes with `mean` only.
    - C3: pools of rows or vectors reach at most 12 tokens to each side, counted
      through pools of pools, and look at no more than 1024 values for one of
      theirs, pools beside one another added: nothing of them is stored (checked
      by `kvc-check-policy`).

    Example: `%p = kvc.pool max %s width(%width) : tensor<?x?xf32>`
  }];
  let arguments = (ins KVC_PoolKindAttr:$kind, KVC_Values:$value, Index:$width,
                       UnitAttr:$count_padding);
  let results = (outs KVC_Values:$result);
  let assemblyFormat = [{
    $kind $value `width` `(` $width `)`
    (`count_padding` $count_padding^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def KVC_SegmentOp : KVC_TensorOp<"segment",
    [AllTypesMatch<["value", "result"]>], ["verifyBound"]> {
  let summary = "set each token against its segment or the one that follows";
  let description = [{
    The past is cut into segments of `length` tokens, the first of which begins
    at token `from`; what lies in front is a segment too, and the last one may be
    short. With `S` the segment of token `t`, with `next` the one behind it:

    | kind | result at `t` |
    |---|---|
    | `max`, `min`, `sum`, `mean` | of `x[u]`, `u` in `S` |
    | `minmax` | `(x[t] - min) / (max - min)`; a range of 0 divides by 1 |
    | `softmax` | `exp(x[t] - max) / sum of exp(x[u] - max)` |
    | `rank` | how many `u` in `S` `kvc.topk` would mark after `t` |

    per head, for vectors per head and channel. Of no tokens `max` is -inf, `min`
    inf, `sum` and `rank` 0, the others NaN. Segments of vectors are never stored:
    they must be reduced over channels.

    Constraints:
    - C1: `softmax` and `rank` need rank 2.
    - C2: `length` is a constant of 1 to 1024 after parameters are bound (checked
      by `kvc-check-policy`).
    - C3: vectors of rank 3 have channels (checked by `kvc-infer-axes`); those that
      come from segments are of the same `length` and `from`, and are not set
      against the next segment once more (checked by `kvc-form-kernels`).

    Example: `%r = kvc.segment rank %s length(%lag) from(%sinks) : tensor<?x?xf32>`
  }];
  let arguments = (ins KVC_SegmentKindAttr:$kind, KVC_Values:$value,
                       Index:$length, Index:$from, UnitAttr:$next);
  let results = (outs KVC_Values:$result);
  let assemblyFormat = [{
    $kind (`next` $next^)? $value `length` `(` $length `)` `from` `(` $from `)`
    attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

#endif // KVC_OPS_TD
