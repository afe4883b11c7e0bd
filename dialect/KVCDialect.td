//===- KVCDialect.td - name and one-page description ----------------------===//

#ifndef KVC_DIALECT_TD
#define KVC_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/DialectBase.td"

def KVC_Dialect : Dialect {
  let name = "kvc";
  let cppNamespace = "::kvc";
  let summary = "KV-cache eviction policies";
  let description = [{
    A policy says which tokens of a layer's key-value cache stay. It is written
    on builtin tensors: `kvc` ops make scores out of the cache and turn scores
    into a kept set; everything in between is `arith` and `math`.

    Sizes. `T` tokens of the sequence, `B` the budget of one KV head in tokens
    (window included), `w` the tokens at the end that are kept unconditionally,
    `Hq` query heads, `Hkv` KV heads, `G = Hq / Hkv`. Query head `h` reads KV
    head `h / G`.

    Axes. A tensor of a policy has one of these shapes, and the pass
    `kvc-infer-axes` writes the axes into its type:

    | rank | axes | made by |
    |---|---|---|
    | 3 | heads, queries, past | `kvc.attention` |
    | 3 | heads, channels, past | `kvc.vectors` |
    | 2 | heads, past | `kvc.reduce`, `kvc.norm`, `kvc.position` |
    | 2 | heads, channels | `kvc.reduce tokens` of vectors |
    | 1 | heads | `kvc.reduce tokens`, `kvc.allocate` |

    Tensors of rank 3 are never stored.

    The head axis is the query heads, the KV heads or one row for all heads.
    The past is the tokens `[0, T - w')`, where `w' = min(w, B)` and `w` is what
    the policy's `kvc.keep` protects; the window is neither scored nor selected.
    Elementwise ops join their operands' head axes (one < KV heads < query
    heads).

    What holds for every policy, whatever it says: if `T <= B` all tokens are
    kept and nothing is scored; if `B <= w` the last `B` tokens are kept. Sums
    run in a fixed order. NaN propagates through every reduction, ranks below
    every number, and raises a bit of the status word. Ties go to the smaller
    token, then to the smaller head. A number of tokens below 0 counts as 0. An
    integer division by 0 divides by 1. Integers wrap around. A float becomes an
    integer toward zero, where it is outside their range the outermost float in it
    (of i32 -2^31 and 2^31 - 128, without a sign 0 and 2^32 - 256), and 0 where it
    is NaN; NaN has no sign, `math.copysign` takes it for positive.

    Levels. At level `policy` the ops below up to `kvc.keep` appear. Level
    `fused` has `kvc.kernel` regions, one launch each, with the ops of
    the second half. No `kvc` op is left at level `gpu`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // KVC_DIALECT_TD
