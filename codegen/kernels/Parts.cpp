//===- Parts.cpp - vectors reduced over the tokens of a split -------------===//
//
// grid (ceildiv(T, 128), Hkv, batch), 256 threads: one block per split of a KV
// head's tokens. Warps read whole rows, 16 bytes to a lane, four accesses of a lane in
// flight (LaneRows.h): norms and reductions over channels by shuffles, what is reduced
// over tokens in registers. Warps are combined in ascending order, 32 d bytes of
// shared memory, two barriers. Reads each row once, writes 4 d bytes.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/LaneRows.h"
#include "codegen/kernels/PolicyKernel.h"

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
      : PolicyKernel(kernel, site, launchOf(kernel, site)), walk(k, threads) {}

  void build() {
    int64_t d = k.shape.headDim;
    Buffer parts = k.shared(k.b.getF32Type(), walk.warps * d,
                            {k.index(walk.warps * d), k.index(d)});
    openHeadBlock();
    Expr split = k.block(gpu::Dimension::x);
    Expr begin = split * splitTokens;
    Expr end = (begin + splitTokens).min(s.past);
    LaneNeeds needs = laneNeeds(kernel, k.shape.group, op.getValue(),
                                [](Value) { return true; });
    LeafReader leaf = [this](Value value, const Point &p) {
      std::optional<Expr> known = walk.find(value, p);
      return known ? known : input(value, p);
    };
    k.when(s.length.above(s.budget) & (begin < s.past), [&] {
      walk.reduceVectors(LaneHead{s, head, leaf}, begin, end, op.getKind(),
                         needs, 4, parts, [&](const LaneToken &token) {
                           return token.channels(op.getValue(), -1);
                         });
      Expr channel = k.thread();
      k.when(channel < d, [&] {
        k.store(walk.ofWarps(op.getKind(), parts, 0, channel),
                partsBuffer(k, outputBuffers(kernel).front()),
                {s.sequence, head, split, channel});
      });
    });
  }

private:
  ReducePartOp op = *kernel.getBody().getOps<ReducePartOp>().begin();
  LaneWalk walk;
};

} // namespace

void kvc::buildParts(KernelOp kernel, const KernelSite &site) {
  PartsBuilder(kernel, site).build();
}
