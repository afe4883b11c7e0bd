//===- Passes.td - from kernels to a target, in the order they run --------===//

#ifndef KVC_CODEGEN_PASSES_TD
#define KVC_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertKVCToGPU : Pass<"convert-kvc-to-gpu", "::mlir::ModuleOp"> {
  let summary = "build the kernels of a fused policy for given shapes";
  let description = [{
    The module's only policy becomes a `gpu.module` with one `gpu.func` per
    kernel and shape; no kvc op is left. The manifest is an attribute of the
    `gpu.module`. Dispatch only: each kind of kernel has its builder in
    `codegen/kernels`.

    Example: test/codegen/convert-kvc-to-gpu.mlir
  }];
  let options = [
    Option<"shapes", "shapes", "std::string", "\"\"",
           "head_dim=N,group=N,dtype=T[,cache=C][,into=C], several separated by ';'">,
    Option<"listsAbove", "lists-above", "int64_t", "32768",
           "longest sequence, in tokens, whose heads select without lists of candidates">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    "::kvc::simt::SIMTDialect"
  ];
}

def ChooseForms : Pass<"kvc-choose-forms", "::mlir::gpu::GPUModuleOp"> {
  let summary = "keep one form of kernels that have two";
  let description = [{
    Of a kernel and its form for GPUs that multiply by warpgroups one is left, under the
    kernel's name.

    Example: test/codegen/kvc-choose-forms.mlir
  }];
  let options = [
    Option<"warpgroups", "warpgroups", "bool", "false",
           "the one for sm_90a, instead of the one for all">,
    Option<"onlyOther", "only-other", "bool", "false",
           "with warpgroups: drop kernels that have no such form">
  ];
}

def ContractProducts : Pass<"kvc-contract-products", "::mlir::gpu::GPUModuleOp"> {
  let summary = "round sums of products once where that is allowed";
  let description = [{
    `arith.addf` or `arith.subf` of an `arith.mulf` in the same block becomes
    `math.fma` where both have the flag `contract`. Of two products the one with
    fewer uses is taken, else the first; a product that others use stays for
    them. That is what LLVM made of them for PTX. Then all fast-math flags go:
    PTX and both forms of the host compute the same, whatever their processors
    have.

    Example: test/codegen/kvc-contract-products.mlir
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def ExpandMath : Pass<"kvc-expand-math", "::mlir::gpu::GPUModuleOp"> {
  let summary = "expand math ops to arithmetic that is the same on all targets";
  let description = [{
    Both targets compute the same polynomials, without libdevice.
    `math.sqrt`, `math.absf`, `math.fma`, `math.copysign` and `math.ctpop` are
    left to the targets, where they are exact. A float becomes one bit by way
    of 32, which LLVM's NVPTX backend gets wrong by itself.

    Example: test/codegen/kvc-expand-math.mlir
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

def SelectMemory : Pass<"kvc-select-memory", "::mlir::gpu::GPUModuleOp"> {
  let summary = "select between two memories in front of a loop, not in it";
  let description = [{
    Two loads from the same place of two arguments of a kernel, of which a condition from
    outside the block selects one, become one load: the condition selects the argument.
    For PTX.

    Example: test/codegen/kvc-select-memory.mlir
  }];
}

def EarlyLoads : Pass<"kvc-early-loads", "::mlir::gpu::GPUModuleOp"> {
  let summary = "load before the divisions that loads would wait behind";
  let description = [{
    Where a block divides or takes a root, which is a branch in machine code, loads of global
    memory behind it are moved in front of the first one, with what they need for it, so
    that they are waited for together: as far as nothing in between may write, and as
    there are registers. For PTX.

    Example: test/codegen/kvc-early-loads.mlir
  }];
}

def NarrowIndices : Pass<"kvc-narrow-indices", "::mlir::gpu::GPUModuleOp"> {
  let summary = "compute with 32 bits what is known to fit";
  let description = [{
    Of index arithmetic, comparisons and loops, all whose numbers are in 32 bits: as
    far as that follows from constants, coordinates of threads and blocks, and
    arguments that count something (`Count` in `kvc/arguments.def`). Addresses have
    64 bits; a number of 32 bits times a stride between rows or pages (`Stride`) is
    shown to `convert-simt-to-nvvm`, which alone is done in kernels with matrix
    products. For PTX: the analyses of the host's lanes know indices of 64 bits.

    Example: test/codegen/kvc-narrow-indices.mlir
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SIMTToNVVM : Pass<"convert-simt-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "lower simt ops to NVVM intrinsics";
  let description = [{
    And a product of two indices that were made of 32 bits, added to a third, to the
    instruction for it.

    Example: test/codegen/convert-simt-to-nvvm.mlir
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect"];
}

def KernelsToNVVM : Pass<"convert-kernels-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "lower what is left of kernels to NVVM";
  let description = [{
    The patterns of upstream's `convert-gpu-to-nvvm` in one conversion. What that pass
    rewrites in front of it, and `convert-vector-to-llvm` behind it, is in no kernel of
    ours, and looking for it at every op took longer than the conversion. A buffer is
    one parameter. Nothing is folded, which is left to LLVM.

    Example: test/codegen/convert-kernels-to-nvvm.mlir
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

def LaunchMemory : Pass<"kvc-launch-memory", "::mlir::gpu::GPUModuleOp"> {
  let summary = "put shared memory where the launch gives it";
  let description = [{
    Of a kernel with `kvc.shared_bytes` all shared memory lies in one external array
    without a length (dynamic shared memory): more than a block has of its own.

    Example: test/codegen/kvc-launch-memory.mlir
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def RollStreams : Pass<"kvc-roll-streams", "::mlir::gpu::GPUModuleOp"> {
  let summary = "walk one by one where a GPU has several loads in flight";
  let description = [{
    A kernel's stream is a loop with several steps written out, whose loads are in
    flight together, and a loop over the rest. The host gains nothing by the first
    and compiles it: the second takes over all of it, in the same order. Where a
    walk is there in both forms (`simt.one_by_one`), one of them stays. With
    `written-out`, as for PTX, it is the long one, and streams stay what they are.
    Memory of a thread that only the other form uses goes with that.

    Example: test/codegen/kvc-roll-streams.mlir
  }];
  let options = [Option<"writtenOut", "written-out", "bool", "false",
                        "leave what is written out">];
}

def HostAlignment : Pass<"kvc-host-alignment", "::mlir::gpu::GPUModuleOp"> {
  let summary = "ask of memory no more than 4 bytes of alignment";
  let description = [{
    A GPU reads rows 16 bytes at a time and needs them aligned to that. A processor
    does not: on the host a vector access takes rows where they lie, in a file that is
    mapped, say, whose header has any length (`KVC_SIMT_ROW_ALIGNMENT`).

    Example: test/codegen/kvc-host-alignment.mlir
  }];
}

def GPUToWarps : Pass<"convert-gpu-to-warps", "::mlir::ModuleOp"> {
  let summary = "build beside each gpu.func a function that a warp runs";
  let description = [{
    What is the same in all lanes stays a scalar, what differs becomes vectors of
    32; branches and loops in which lanes part are masked. `@k.warp(ptr thread,
    ptr args)` has the attribute `kvc.warp_of`, and `kvc.barriers` where it meets
    the other warps. A kernel with an op that has no such form is left out, with a
    remark that names the op. [The host target](host.md) has the rules.

    Example: test/codegen/convert-gpu-to-warps.mlir
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def GPUToHost : Pass<"convert-gpu-to-host", "::mlir::ModuleOp"> {
  let summary = "turn gpu.func into functions that a fiber per thread runs";
  let description = [{
    `gpu.func @k(args)` becomes `llvm.func @k(ptr thread, ptr args)`: coordinates
    are fields of the thread's context, block memory is one buffer, barriers,
    shuffles and simt ops are calls through the context's table
    (`runtime/include/kvc/simt.h`). The artefact has no undefined symbol of ours.

    Example: test/codegen/convert-gpu-to-host.mlir
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::vector::VectorDialect"];
}

def HostToLLVM : Pass<"convert-host-to-llvm", "::mlir::ModuleOp"> {
  let summary = "lower host kernels to the LLVM dialect";
  let description = [{
    What each dialect brings for that, in one conversion, like
    `convert-kernels-to-nvvm`.

    Example: test/codegen/convert-host-to-llvm.mlir
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // KVC_CODEGEN_PASSES_TD
