//===- KVCAttrs.td - enums and attributes ---------------------------------===//

#ifndef KVC_ATTRS_TD
#define KVC_ATTRS_TD

include "dialect/KVCDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class KVC_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::kvc";
  let genSpecializedAttr = 0;
  // As upstream's, but what it says of another word names no C++ type.
  let parameterParser = [{[&]() -> ::mlir::FailureOr<}] # cppType # [{> {
    auto where = $_parser.getCurrentLocation();
    std::string word;
    if (::mlir::failed($_parser.parseKeywordOrString(&word)))
      return ::mlir::failure();
    if (auto known = }] # cppNamespace # "::" # stringToSymbolFnName # [{(word))
      return *known;
    return {(::llvm::LogicalResult)($_parser.emitError(where)
             << "must be one of }] # !interleave(!foreach(one, enumerants, one.str), ", ") #
             [{, got '" << word << "'")};
  }()}];
}

def KVC_Axis : KVC_Enum<"Axis", "what one dimension of a tensor counts", [
  I32EnumAttrCase<"QueryHeads", 0, "query_heads">,
  I32EnumAttrCase<"KVHeads", 1, "kv_heads">,
  I32EnumAttrCase<"OneHead", 2, "one_head">,
  I32EnumAttrCase<"Query", 3, "query">,
  I32EnumAttrCase<"Past", 4, "past">,
  I32EnumAttrCase<"Kept", 5, "kept">,
  I32EnumAttrCase<"Split", 6, "split">,
  I32EnumAttrCase<"Pair", 7, "pair">,
  I32EnumAttrCase<"Channel", 8, "channel">,
  I32EnumAttrCase<"Bin", 9, "bin">,
  I32EnumAttrCase<"Member", 10, "member">
]>;

def KVC_ReduceKind : KVC_Enum<"ReduceKind", "how values are combined", [
  I32EnumAttrCase<"Mean", 0, "mean">,
  I32EnumAttrCase<"Sum", 1, "sum">,
  I32EnumAttrCase<"Max", 2, "max">,
  I32EnumAttrCase<"Min", 3, "min">,
  I32EnumAttrCase<"Std", 4, "std">
]>;
def KVC_ReduceKindAttr : EnumAttr<KVC_Dialect, KVC_ReduceKind, "reduce_kind">;

def KVC_ReduceAxis : KVC_Enum<"ReduceAxis", "what is reduced away", [
  I32EnumAttrCase<"Queries", 0, "queries">,
  I32EnumAttrCase<"Group", 1, "group">,
  I32EnumAttrCase<"Heads", 2, "heads">,
  I32EnumAttrCase<"Tokens", 3, "tokens">,
  I32EnumAttrCase<"Channels", 4, "channels">,
  I32EnumAttrCase<"Members", 5, "members">
]>;
def KVC_ReduceAxisAttr : EnumAttr<KVC_Dialect, KVC_ReduceAxis, "reduce_axis">;

def KVC_PoolKind : KVC_Enum<"PoolKind", "how neighbours are combined", [
  I32EnumAttrCase<"Max", 0, "max">,
  I32EnumAttrCase<"Mean", 1, "mean">
]>;
def KVC_PoolKindAttr : EnumAttr<KVC_Dialect, KVC_PoolKind, "pool_kind">;

def KVC_SegmentKind : KVC_Enum<"SegmentKind", "how a token is set against a segment", [
  I32EnumAttrCase<"Max", 0, "max">,
  I32EnumAttrCase<"Min", 1, "min">,
  I32EnumAttrCase<"Sum", 2, "sum">,
  I32EnumAttrCase<"Mean", 3, "mean">,
  I32EnumAttrCase<"MinMax", 4, "minmax">,
  I32EnumAttrCase<"Softmax", 5, "softmax">,
  I32EnumAttrCase<"Rank", 6, "rank">
]>;
def KVC_SegmentKindAttr : EnumAttr<KVC_Dialect, KVC_SegmentKind, "segment_kind">;

def KVC_NormKind : KVC_Enum<"NormKind", "vector norm", [
  I32EnumAttrCase<"L1", 0, "l1">,
  I32EnumAttrCase<"L2", 1, "l2">
]>;
def KVC_NormKindAttr : EnumAttr<KVC_Dialect, KVC_NormKind, "norm_kind">;

def KVC_CacheSide : KVC_Enum<"CacheSide", "keys or values of the cache", [
  I32EnumAttrCase<"Key", 0, "key">,
  I32EnumAttrCase<"Value", 1, "value">,
  I32EnumAttrCase<"RawKey", 2, "raw_key">
]>;
def KVC_CacheSideAttr : EnumAttr<KVC_Dialect, KVC_CacheSide, "cache_side">;

def KVC_End : KVC_Enum<"End", "which end of an order", [
  I32EnumAttrCase<"Lowest", 0, "lowest">,
  I32EnumAttrCase<"Highest", 1, "highest">
]>;
def KVC_EndAttr : EnumAttr<KVC_Dialect, KVC_End, "end">;

def KVC_KernelKind : KVC_Enum<"KernelKind", "the builder of a kernel", [
  I32EnumAttrCase<"Statistics", 0, "statistics">,
  I32EnumAttrCase<"Combine", 1, "combine">,
  I32EnumAttrCase<"Columns", 2, "columns">,
  I32EnumAttrCase<"Rows", 3, "rows">,
  I32EnumAttrCase<"Sequence", 4, "sequence">,
  I32EnumAttrCase<"Compact", 5, "compact">,
  I32EnumAttrCase<"Nearest", 6, "nearest">,
  I32EnumAttrCase<"Gram", 7, "gram">,
  I32EnumAttrCase<"Segments", 8, "segments">,
  I32EnumAttrCase<"Parts", 9, "parts">,
  I32EnumAttrCase<"Spans", 10, "spans">,
  I32EnumAttrCase<"Keys", 11, "keys">,
  I32EnumAttrCase<"Norms", 12, "norms">
]>;
def KVC_KernelKindAttr : EnumAttr<KVC_Dialect, KVC_KernelKind, "kernel_kind">;

def KVC_AxesAttr : AttrDef<KVC_Dialect, "Axes",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "axes";
  let summary = "the axes of a tensor, as its type's encoding";
  let description = [{
    Written by `kvc-infer-axes`, read by everything behind it. Tensors of one
    rank whose axes differ have different types, so the verifiers of `arith`
    and `math` then also check that axes agree. An axis says the extent as well: 1 of
    `one_head`, 2 of `pair`, 2048 of `bin`, that of the last queries or `?` of `query`,
    `?` of all others.

    Example: `tensor<?x?xf32, #kvc.axes<kv_heads, past>>`
  }];
  let parameters = (ins ArrayRefParameter<"::kvc::Axis">:$axes);
  let assemblyFormat = "`<` $axes `>`";
}

def KVC_BufferAttr : AttrDef<KVC_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "one scratch buffer: index, first and last kernel that needs it";
  let description = [{
    Written by `kvc-plan-scratch` on the op whose result lives in the buffer.
    Its size follows from the result's type. Buffers whose lives do not overlap
    may share memory; the runtime places them when lengths are known.
  }];
  let parameters = (ins "unsigned":$index, "unsigned":$first, "unsigned":$last);
  let assemblyFormat = "`<` $index `,` `live` `=` $first `to` $last `>`";
}

def KVC_Phase : KVC_Enum<"Phase", "what a kernel is run for", [
  I32EnumAttrCase<"Prepare", 0, "prepare">,
  I32EnumAttrCase<"Score", 1, "score">,
  I32EnumAttrCase<"Select", 2, "select">,
  I32EnumAttrCase<"Compact", 3, "compact">
]>;

def KVC_PlanAttr : AttrDef<KVC_Dialect, "Plan"> {
  let mnemonic = "plan";
  let summary = "what a runtime must know of a fused policy as a whole";
  let description = [{
    Written by `kvc-write-plan`, printed by the manifest, read by whoever builds
    kernels; nothing of it is derived again.

    | | |
    |---|---|
    | `queries` | how many of the last queries are read, or `all` |
    | `protect_last` | tokens that are protected, `unknown` before the launch |
    | `lse` | buffer of the log-sum-exp, for callers that have none |
    | `scores` | buffer of what the last selection ranked, and its heads |
    | `states` | names of what rows carry, in the order of their memory; absent for nothing |
    | `least_queries` | beside the new queries, how many of the last are read at least; absent where these are not read |
    | `skipped_with_lse` | numbers of the kernels that make the log-sum-exp and nothing else: a call that gives it leaves them out; absent for none |
    | `phases` | one for each kernel: `prepare` (reads a layer's weights and nothing else, so that one run of it does for all calls), `score`, `select` (the one that lists the kept tokens), `compact` |
    | `buffers` | scratch: first and last kernel that needs it; `per_block` where each block of a kernel has its own, `model` where elements are in the model's type; the tensor |

    Example:
    ```mlir
    #kvc.plan<queries = 0, protect_last = 0, lse = none, scores = 0 of kv_heads,
              phases = [score, select, compact],
              buffers = [0 to 2 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>]>
    ```
  }];
  let parameters = (ins "int64_t":$queries,
                        "std::optional<int64_t>":$protect_last,
                        "std::optional<unsigned>":$lse,
                        "std::optional<unsigned>":$scores,
                        "::kvc::Axis":$score_heads,
                        "std::optional<int64_t>":$least_queries,
                        ArrayRefParameter<"::mlir::StringAttr">:$states,
                        ArrayRefParameter<"unsigned">:$skipped_with_lse,
                        ArrayRefParameter<"::kvc::Phase">:$phases,
                        ArrayRefParameter<"::kvc::PlannedBuffer">:$buffers);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// True where the queries of every token are read, or of every new one.
    bool readsAllQueries() const;
  }];
}

#endif // KVC_ATTRS_TD
