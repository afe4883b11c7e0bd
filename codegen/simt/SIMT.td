//===- SIMT.td - what a warp can do and upstream cannot say ---------------===//
//
// A handful of ops with two lowerings: NVVM intrinsics (SIMTToNVVM.cpp) and
// calls into the emulation of the runtime (GPUToHost.cpp). Everything else in a
// kernel is gpu, scf, memref, vector, arith and math.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_SIMT_TD
#define KVC_SIMT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def SIMT_Dialect : Dialect {
  let name = "simt";
  let cppNamespace = "::kvc::simt";
  let summary = "warp operations that both targets can run";
}

class SIMT_Op<string mnemonic, list<Trait> traits = []>
    : Op<SIMT_Dialect, mnemonic, traits>;

def SIMT_MmaOp : SIMT_Op<"mma", [AttrSizedOperandSegments]> {
  let summary = "multiply fragments of 16xK and Kx8 on the tensor cores";
  let description = [{
    `d = a * b + c` over K = 16 * steps, fp32 accumulation, in the register
    layout of `mma.sync.m16n8k16.row.col`: four 32-bit registers of `a` and two
    of `b` per step, each holding two elements of `bf16` or `f16`. All lanes of
    the warp take part (hence not pure).
  }];
  let arguments = (ins Variadic<I32>:$a, Variadic<I32>:$b, F32:$c0, F32:$c1,
                       F32:$c2, F32:$c3, TypeAttr:$element);
  let results = (outs F32:$d0, F32:$d1, F32:$d2, F32:$d3);
  let assemblyFormat = [{
    $element `a` `(` $a `)` `b` `(` $b `)` `c` `(` $c0 `,` $c1 `,` $c2 `,` $c3
    `)` attr-dict
  }];
  let extraClassDeclaration = [{
    ::mlir::OperandRange getC() { return getOperands().take_back(4); }
  }];
}

def SIMT_Exp2Op : SIMT_Op<"exp2", [Pure]> {
  let summary = "compute 2 to the x, to about two units in the last place";
  let description = [{
    Results below 2^-126 are 0: numbers below the smallest normal one would cost
    three more instructions, and no weight that small changes a sum.
  }];
  let arguments = (ins F32:$x);
  let results = (outs F32:$y);
  let assemblyFormat = "$x attr-dict";
}

def SIMT_Log2Op : SIMT_Op<"log2", [Pure]> {
  let summary = "compute the base-2 logarithm";
  let arguments = (ins F32:$x);
  let results = (outs F32:$y);
  let assemblyFormat = "$x attr-dict";
}

def SIMT_BallotOp : SIMT_Op<"ballot"> {
  let summary = "collect one bit of every lane";
  let arguments = (ins I1:$bit);
  let results = (outs I32:$bits);
  let assemblyFormat = "$bit attr-dict";
}

def SIMT_SumOp : SIMT_Op<"sum"> {
  let summary = "add up a number of every lane";
  let description = [{
    All lanes get the sum, modulo 2^32. One instruction (`redux.sync`), where a tree of
    shuffles takes ten.
  }];
  let arguments = (ins I32:$number);
  let results = (outs I32:$sum);
  let assemblyFormat = "$number attr-dict";
}

def SIMT_SyncWarpOp : SIMT_Op<"sync_warp"> {
  let summary = "wait for all lanes of the warp and order their memory";
  let assemblyFormat = "attr-dict";
}

def SIMT_TeamBarrierOp : SIMT_Op<"team_barrier"> {
  let summary = "wait for the threads of a team and order their memory";
  let description = [{
    A block's threads are in teams of `threads`, a multiple of the warp, by their number;
    `team` is the thread's own, at most 14 (`bar.sync` has 16 barriers, and the block's is
    one). Nobody waits for another team. Between two barriers of the block every team
    passes as many of these: the host has one barrier alone.
  }];
  let arguments = (ins I32:$team, I64Attr:$threads);
  let assemblyFormat = "$team `of` $threads attr-dict";
}

def SIMT_ClusterBarrierOp : SIMT_Op<"cluster_barrier"> {
  let summary = "wait for the blocks of the cluster and order their memory";
  let description = [{
    Blocks of a kernel with `nvvm.cluster_dim` (sm_90), which run at the same time. The host
    has no form of it.
  }];
  let assemblyFormat = "attr-dict";
}

def SIMT_StoreToFirstOp : SIMT_Op<"store_to_first"> {
  let summary = "store to the shared memory of the cluster's first block";
  let description = [{
    To where the block itself has `memory[index]`. All must have met once before
    (`simt.cluster_barrier`), so that the first block has begun, and it finds the number
    behind the next one.
  }];
  let arguments = (ins F32:$value, MemRefRankOf<[F32], [1]>:$memory, Index:$index);
  let assemblyFormat = "$value `,` $memory `[` $index `]` attr-dict `:` type($memory)";
}

def SIMT_AsyncCopyOp : SIMT_Op<"async_copy"> {
  let summary = "begin to copy some elements from global to shared memory";
  let description = [{
    4, 8 or 16 bytes at addresses that are multiples of it. They are there for
    the thread once it has waited for the group that it committed the copy to,
    for others behind a barrier after that. Until then the source must not be
    written and the destination not be touched.
  }];
  let arguments = (ins MemRefRankOf<[AnyType], [1]>:$from, Index:$fromIndex,
                       MemRefRankOf<[AnyType], [1]>:$to, Index:$toIndex,
                       I64Attr:$count);
  let assemblyFormat = [{
    $count `of` $from `[` $fromIndex `]` `to` $to `[` $toIndex `]` attr-dict `:`
    type($from) `to` type($to)
  }];
}

def SIMT_AsyncCommitOp : SIMT_Op<"async_commit"> {
  let summary = "make a group of the copies begun since the last one";
  let assemblyFormat = "attr-dict";
}

def SIMT_AsyncWaitOp : SIMT_Op<"async_wait"> {
  let summary = "wait for all of the thread's groups but the last `pending`";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def SIMT_PublishOp : SIMT_Op<"publish"> {
  let summary = "show what the thread wrote to shared memory to warpgroups";
  let description = [{
    `simt.group_multiply` behind the next barrier reads it. Of copies it must have waited
    for them.
  }];
  let assemblyFormat = "attr-dict";
}

def SIMT_GroupMultiplyOp : SIMT_Op<"group_multiply"> {
  let summary = "begin to multiply 64 rows of a warpgroup with rows in shared memory";
  let description = [{
    `products = a * b^T` on the tensor cores, fp32, for four warps from a multiple of four
    on, all of whose lanes take part. Each warp has 16 rows of `a`, four registers for 16
    columns as in `simt.mma`, and gets as much of the products as `simt.mma` leaves of them,
    `b` having two rows for each of the lane's. `b` begins at element `index`, 1024 bytes
    aligned: panels of 64 columns, row behind row, in which the pieces of 8 elements are
    where their number and the row's last three bits differ (`wgmma`, 128-byte swizzle).

    Products must go through a `simt.group_wait` first, and `b` stay until then. For GPUs
    that multiply by warpgroups (sm_90a); the host has no form of it.
  }];
  let arguments = (ins Variadic<I32>:$a, MemRefRankOf<[BF16, F16], [1]>:$b, Index:$index);
  let results = (outs Variadic<F32>:$products);
  let assemblyFormat = [{
    `a` `(` $a `)` `b` $b `[` $index `]` attr-dict `:` type($b) `->` type($products)
  }];
}

def SIMT_GroupWaitOp : SIMT_Op<"group_wait"> {
  let summary = "wait for the warpgroup's products";
  let description = [{
    All that it has begun are over. The operands are what was begun, the results what comes
    out.
  }];
  let arguments = (ins Variadic<F32>:$products);
  let results = (outs Variadic<F32>:$there);
  let assemblyFormat = [{
    `(` $products `)` attr-dict `:` type($products) `->` type($there)
  }];
}

def SIMT_OneByOneOp : SIMT_Op<"one_by_one", [Pure]> {
  let summary = "whether loops are walked one by one";
  let description = [{
    The condition of an `scf.if` with two forms of one walk: where it is true in
    a plain loop, else with several steps written out, whose loads are in flight
    together. `kvc-roll-streams` takes one of them.
  }];
  let results = (outs I1:$result);
  let assemblyFormat = "attr-dict";
}

#endif // KVC_SIMT_TD
