//===- Parts.cpp - vectors reduced over the tokens of a split -------------===//
//
// grid (ceildiv(T, 128), Hkv, batch), 256 threads: one block per split of a KV
// head's tokens. A thread has the channels of one access to the cache, 16 bytes;
// so many threads as a row has accesses have a token, and the block walks
// several tokens at once, four accesses of a thread in flight. What threads with
// the same channels have is combined in ascending order, 8 KiB of shared memory,
// one barrier. Reads each row once, writes 4 d bytes.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/PolicyKernel.h"
#include "codegen/kernels/Reductions.h"

using namespace mlir;
using namespace kvc;

namespace {

class PartsBuilder : PolicyKernel {
  static constexpr int64_t threads = 256;

  static LaunchSpec launchOf(KernelOp kernel, const KernelSite &site) {
    LaunchSpec spec = bodyLaunch(kernel, site);
    spec.blockSize = threads;
    spec.grid = {"ceildiv(tokens," + std::to_string(splitTokens) + ")",
                 "kv_heads", "batch"};
    return spec;
  }

public:
  PartsBuilder(KernelOp kernel, const KernelSite &site)
      : PolicyKernel(kernel, site, launchOf(kernel, site)) {}

  void build() {
    Buffer sums = k.shared(k.b.getF32Type(), threads * width, {k.index(width)});
    openHeadBlock();
    Expr split = k.block(gpu::Dimension::x);
    Expr begin = split * splitTokens;
    Expr end = (begin + splitTokens).min(s.past);
    k.when(s.length.above(s.budget) & (begin < s.past), [&] {
      Values mine = reduceTokens(begin, end);
      for (int64_t e = 0; e < width; ++e)
        k.store(mine[e], sums, {k.thread(), k.index(e)});
      k.barrier();
      Expr channel = k.thread();
      k.when(channel < k.shape.headDim, [&] {
        Expr total = k.fold(0, atOnce, 1, reductionStart(k, op.getKind()),
                            [&](Expr token, Expr acc) {
                              Expr thread = token * perToken + channel / width;
                              Expr part =
                                  k.load(sums, {thread, channel % width});
                              return reductionStep(op.getKind(), acc, part);
                            });
        k.store(total, partsBuffer(k, outputBuffers(kernel).front()),
                {s.sequence, head, split, channel});
      });
    });
  }

private:
  using Values = KernelBuilder::Values;

  ReducePartOp op = *kernel.getBody().getOps<ReducePartOp>().begin();
  /// Channels of a thread, threads of a token, tokens of a step. Threads that
  /// are left over work for nobody.
  const int64_t width = k.shape.vectorWidth();
  const int64_t perToken = k.shape.headDim / width;
  const int64_t atOnce = threads / perToken;

  /// The thread's channels of its tokens in [begin, end).
  Values reduceTokens(Expr begin, Expr end) {
    Expr first = k.thread() % perToken * width;
    LeafReader leaf = [this](Value v, const Point &p) { return input(v, p); };
    return k.stream(
        begin + k.thread() / perToken, end, atOnce,
        Values(width, reductionStart(k, op.getKind())),
        [&](Expr token) {
          PointEval eval(k, s, leaf, Point{head, -1, {}, token});
          return eval.channels(op.getValue(), first, width);
        },
        [&](Expr, ArrayRef<Expr> made, ArrayRef<Expr> sums) {
          Values next;
          for (auto [value, sum] : llvm::zip(made, sums))
            next.push_back(reductionStep(op.getKind(), sum, value));
          return next;
        });
  }
};

} // namespace

void kvc::buildParts(KernelOp kernel, const KernelSite &site) {
  PartsBuilder(kernel, site).build();
}
